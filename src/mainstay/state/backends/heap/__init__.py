"""Keyed state in the memory of the process."""
