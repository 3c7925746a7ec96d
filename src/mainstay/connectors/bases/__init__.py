"""What sinks are built on, by what their target can do."""
