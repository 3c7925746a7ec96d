"""Checkpoints of Spark's streaming queries: their state and offsets as a savepoint of a job."""
