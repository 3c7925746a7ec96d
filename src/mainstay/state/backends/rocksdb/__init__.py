"""Keyed state in RocksDB on the local disk."""
