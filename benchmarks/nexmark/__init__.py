"""Nexmark: an auction house as a stream of persons, auctions and bids, and 24 queries over it.

``generator`` makes the events, ``reference`` answers the queries with DuckDB, ``queries`` holds the
same queries as Mainstay programs and ``flink_sql`` as Flink statements. ``README.md`` says what
columns each query gives.
"""
