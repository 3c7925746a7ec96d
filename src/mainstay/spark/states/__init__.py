"""States as DataFrames, and savepoints made of them."""
