"""Keyed state in PostgreSQL: what a job says of it, its tables, and the transactions on them."""
