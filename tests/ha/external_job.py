"""A job with its state in PostgreSQL, and what that must be at any of its epochs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import mainstay as ms
from mainstay.runtime.own_states import SPLITS
from mainstay.snapshot.manifest import Manifest
from mainstay.state.operator import values_in
from tests.drive.ledger import KEYS, Ledger, LedgerJob
from tests.services.postgres import name_of

UID = "ledger"
PARTS = 4
"""Splits of the source: within one of them ids come in order."""

Rows = dict[str, dict[int, Any]]
"""What states hold: by the name of the state, and by key."""


class Kept(Ledger):
    """Writes every id down, counts them, and keeps the newest of each split."""

    count = ms.ValueState("long")
    newest = ms.MapState("long", "long")

    def __init__(self, ids: int) -> None:
        self.part = ids // PARTS

    def process(self, row: Any, ctx: Any) -> Any:
        self.count.update((self.count.get() or 0) + 1)
        self.newest.put(row.id // self.part, row.id)
        return super().process(row, ctx)


def schema_of(dsn: str) -> str:
    return f"states {name_of(dsn)}"


def external_job(
    folder: Path, protocol: str, dsn: str, *, count: int, per_second: float
) -> LedgerJob:
    state = ms.Postgres(dsn, protocol, schema=schema_of(dsn), cache="1MiB")
    return LedgerJob(
        folder,
        count=count,
        per_second=per_second,
        workers=2,
        function=Kept(count),
        state=state,
    )


def reference(manifest: Manifest, count: int) -> Rows:
    """What a plain loop comes to that has read as far as an epoch has."""
    rows: Rows = {"seen": {}, "count": {}, "newest": {}}
    bounds = [count * number // PARTS for number in range(PARTS + 1)]
    positions = _positions(manifest)
    planned = manifest.sources["ids"]["seen"]
    for part, (first, after) in enumerate(pairwise(bounds)):
        if f"ids-{first}" not in planned:
            continue
        for id in range(first, positions.get(first, after)):
            key = id % KEYS
            rows["seen"].setdefault(key, []).append(id)
            rows["count"][key] = rows["count"].get(key, 0) + 1
            rows["newest"].setdefault(key, {})[part] = id
    return rows


def _positions(manifest: Manifest) -> dict[int, int]:
    """How far the splits were read that are not at their end, by their first id."""
    found: dict[int, int] = {}
    for subtask in manifest.operators["ids"].subtasks:
        for unit in map(json.loads, values_in(SPLITS, subtask.units[SPLITS.name])):
            first, _ = unit["data"]
            start = first if unit["offset"] is None else unit["offset"]
            found[first] = start + unit["skip"]
    return found
