"""A job of another process over HTTP. Needs nothing but the standard library."""
