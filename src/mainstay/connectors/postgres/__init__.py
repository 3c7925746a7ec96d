"""PostgreSQL: tables as sinks, by transactions or by keys, and as a source.

Needs the extra ``postgres``: ``pip install 'mainstay[postgres]'``.
"""

from mainstay.connectors.postgres.sink import PostgresSink
from mainstay.connectors.postgres.source import PostgresSource, read_schema
from mainstay.connectors.postgres.upsert import PostgresUpsertSink

__all__ = ["PostgresSink", "PostgresSource", "PostgresUpsertSink", "read_schema"]
