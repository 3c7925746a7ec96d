"""Keyed state in an external database, which outlives workers and attempts."""
