"""``listTimers`` on every backend: what this start has set, and what was restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms

FAR_MS = 4_000_000_000_000


class Listing(StatefulProcessor):
    """Sets a timer for each row, deletes those of negative ones, and lists what there is."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            change = self.handle.registerTimer if row.n > 0 else self.handle.deleteTimer
            change(FAR_MS + abs(row.n))
        yield Row(k=key[0], listed=str([at - FAR_MS for at in self.handle.listTimers()]))


def listed(folder: Path, state: Any, rows: list[tuple[str, int]], restore: str) -> list[Any]:
    """What a start emits that finds these rows new."""
    number = len(list((folder / "in").iterdir()))
    lines = "".join(f"{key},{n}\n" for key, n in rows)
    (folder / "in" / f"{number}.csv").write_text(f"k,n\n{lines}")
    snapshots = ms.Snapshots(folder / "snapshots")
    env = ms.Environment(spark="embedded", snapshots=snapshots, state=state, restore=restore)
    out = ms.connectors.Memory()
    keyed = env.source(ms.connectors.Files(folder / "in", schema="k string, n long"), uid="in")
    keyed.key_by("k").transform_with_state(
        Listing(), "k string, listed string", time_mode="ProcessingTime", uid="timers"
    ).sink(out, uid="out")
    assert env.start("timers").wait(timeout=60) == "finished"
    return sorted(out.rows())


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_timers_of_this_start_and_of_those_before_are_listed(backend: str, tmp_path: Path) -> None:
    state: Any = "heap"
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
        state = ms.RocksDB(memory="64MiB")
    (tmp_path / "in").mkdir()
    first = listed(tmp_path, state, [("a", 1), ("a", 2), ("b", 3)], "new")
    assert first == [("a", "[1, 2]"), ("b", "[3]")]
    second = listed(tmp_path, state, [("a", -1), ("a", 5), ("b", 3), ("c", 7)], "latest")
    assert second == [("a", "[2, 5]"), ("b", "[3]"), ("c", "[7]")]
