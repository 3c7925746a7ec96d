"""Reading snapshots and savepoints from outside a job, without Spark."""
