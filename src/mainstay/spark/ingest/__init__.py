"""DataFrames into ingest logs."""
