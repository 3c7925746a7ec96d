"""Reads what the jobs have written, with clients that have nothing to do with theirs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstay.connectors import read_committed
from tests.services.kafka import KafkaBroker
from tests.services.postgres import asked
from tests.together.model import Rows

TOPICS = {
    "totals": ("n", "k", "seen", "weight"),
    "buckets": ("k", "end", "count", "total"),
    "rounds": ("n", "k", "value"),
}
FOLDERS = {
    "windows": ("k", "window_start", "window_end", "count", "total"),
    "pairs": ("deal", "ordered", "paid"),
    "copies": ("n", "k", "amount"),
}
TABLES = {"moves": ("n", "k", "amount"), "balances": ("k", "seen")}
COLUMNS = TOPICS | FOLDERS | TABLES
"""Of every output: where there is no server all of them are folders."""


def of_topic(broker: KafkaBroker, topic: str) -> Rows:
    columns = TOPICS[topic]
    rows = (json.loads(message.value()) for message in broker.committed(topic))
    return Counter(tuple(row[name] for name in columns) for row in rows)


def of_folders(name: str, parents: Iterable[Path]) -> Rows:
    """Over all incarnations of a job, each of which has a folder of its own."""
    found: Rows = Counter()
    for parent in parents:
        if (parent / name).exists():
            found.update(_rows_of(read_committed(parent / name), COLUMNS[name]))
    return found


def _rows_of(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """None where an incarnation has committed nothing: then there are no columns either."""
    if table.num_columns:
        columns = [table.column(name).to_pylist() for name in names]
        yield from (tuple(map(plain, row)) for row in zip(*columns, strict=True))


def plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    return int(value.timestamp()) * 1_000_000 + value.microsecond


def of_table(dsn: str, table: str) -> Rows:
    return Counter(asked(dsn, f"SELECT {', '.join(TABLES[table])} FROM {table}"))


def input_numbers(broker: KafkaBroker, partitions: int) -> Counter[int]:
    """The numbers of the events that are really in the topic."""
    return Counter(json.loads(each.value())["n"] for each in broker.committed("events", partitions))
