"""The rows that Flink gives for queries, as texts, so that its statements can be compared too.

>>> python -m benchmarks.nexmark.flink_rows q4 q5 --input events --jars jars --output rows

writes ``rows/q4.json`` and ``rows/q5.json``. Rows are fetched one call at a time: take few events.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from pyflink.common import RowKind
from pyflink.table import Table

from benchmarks.nexmark.flink import table_environment
from benchmarks.nexmark.flink_sql import STATEMENTS

TAKEN_BACK = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


def collect(query: Table) -> list[list[str]]:
    """The rows that are left when all corrections are made."""
    left: Counter[tuple[str, ...]] = Counter()
    with query.execute().collect() as rows:
        for row in rows:
            left[tuple(map(text, row))] += -1 if row.get_row_kind() in TAKEN_BACK else 1
    return [list(row) for row in left.elements()]


def text(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queries", nargs="+", choices=STATEMENTS)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoints:
        made = table_environment(asked.input, asked.jars, Path(checkpoints))
        for name in asked.queries:
            rows = collect(made.sql_query(STATEMENTS[name]))
            (asked.output / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
            print(f"{name}: {len(rows):,} rows", flush=True)


if __name__ == "__main__":
    main()
