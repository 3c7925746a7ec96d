"""PySpark's Python data sources as sources and sinks."""
