"""Mainstay, measured: ``python -m benchmarks.ours WORKLOAD --setting NAME --seconds S``.

The last line of standard output is one JSON object, as every system of the comparison prints it.
"""
