"""State in PostgreSQL beside the other backends: recovery, rows a second, growth."""
