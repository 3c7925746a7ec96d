"""Deduplication and top-n over the real backends, with exact results."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows

ROWS = [(Random(n).randrange(1000), n) for n in range(6000)]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_every_backend_keeps_the_same_rows(tmp_path: Path, backend: str) -> None:
    state: Any = "heap" if backend == "heap" else ms.RocksDB(directory=str(tmp_path / "databases"))
    once, newest, best = Memory(), Memory(), Memory()
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        state=state,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="50ms"),
    )
    keyed = env.source(Rows("k long, v long", ROWS, splits=2), uid="in").key_by("k")
    keyed.deduplicate(uid="once").sink(once, uid="to-once")
    keyed.deduplicate("last", by="v", uid="newest").sink(newest, uid="to-newest")
    keyed.top(3, by="v", uid="best").sink(best, uid="to-best")
    env.start("keeping").wait(progress=False)
    values: dict[int, list[int]] = {}
    for key, value in reversed(ROWS):
        values.setdefault(key, []).append(value)
    expected = {(k, n): v for k, vs in values.items() for n, v in enumerate(vs[:3], start=1)}
    assert sorted(key for key, _ in once.rows()) == sorted(values)
    assert dict(newest.rows()) == {key: found[0] for key, found in values.items()}
    assert {(key, rank): value for key, value, rank in best.rows()} == expected
