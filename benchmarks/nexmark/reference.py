"""What each query has to give, by DuckDB over the same rows. The statements are in ``sql/``.

DuckDB gets times without a zone, all of them UTC, so that no statement depends on where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.nexmark.contract import QUERIES
from benchmarks.nexmark.generator import Generator
from benchmarks.nexmark.schemas import TIMESTAMP
from benchmarks.nexmark.sources import side_table

_SQL = Path(__file__).parent / "sql"
_NO_ZONE = pa.timestamp("us")


def statement(query: str) -> str:
    return (_SQL / f"{query}.sql").read_text(encoding="utf-8")


def expected(query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over tables named as its inputs, with the columns of its contract.

    Of a query that updates, this is the last row of each key.
    """
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table.cast(_without_zones(table.schema)))
        found = connection.sql(statement(query)).to_arrow_table()
    schema = QUERIES[query].schema
    if found.column_names != schema.names:
        raise ValueError(f"{query} gives {found.column_names}; its contract has {schema.names}")
    return found.cast(schema)


def tables_of(query: str, generator: Generator, events: int) -> dict[str, pa.Table]:
    """The inputs of a query, with ``seq`` and all other columns, as the generator makes them."""
    return {
        name: side_table() if name == "side" else generator.table(name, events)
        for name in QUERIES[query].reads
    }


def stored_tables(query: str, directory: Path) -> dict[str, pa.Table]:
    """The same from the directory of ``write_parquet``, with the columns that the query reads."""
    return {
        name: pq.read_table(directory / name, columns=[*columns])
        for name, columns in QUERIES[query].reads.items()
    }


def _without_zones(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [field.with_type(_NO_ZONE) if field.type == TIMESTAMP else field for field in schema]
    )
