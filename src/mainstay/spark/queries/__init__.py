"""Whole queries of PySpark with a stateful function, as jobs."""
