"""The ingest log: DataFrames of Spark as a source."""
