"""What a task takes its rows from: a gate, the splits of a source, or a gate and a loop."""
