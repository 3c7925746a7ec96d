"""Rows a second through connectors, beside the bare client in the same run."""
