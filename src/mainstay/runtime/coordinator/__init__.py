"""The coordinator: attempts, epochs and the commit log of one job."""
