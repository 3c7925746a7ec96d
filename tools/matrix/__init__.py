"""The versions of Python and PySpark that Mainstay runs with: ``python -m tools.matrix``."""
