"""A job on Spark: the session, the barrier tasks, and the job's handle."""
