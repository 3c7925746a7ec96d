"""Joins of two keyed streams, on columns with state."""
