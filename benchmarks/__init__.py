"""What the core costs, measured: ``python -m benchmarks`` (or ``make bench``) prints the tables.

Each module measures one thing and has a ``measure(size)`` that returns tables. Every figure is
the median of several runs in one process; what is compared is measured in the same run.
"""
