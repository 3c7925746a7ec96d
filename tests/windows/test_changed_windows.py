"""A program whose windows or joins were changed: refused while rows are kept for the old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.errors import MainstayError
from tests.serve.jobs import await_true

SCHEMA = "k long, at timestamp, v long"
START_US = 1_700_000_000_000_000
STEP_US = 10_000
Build = Callable[[Any], Any]


def numbered(first: int, count: int) -> pa.RecordBatch:
    """A row each 10 ms of event time."""
    ids = pa.array(range(first, first + count), pa.int64())
    times = pa.array([START_US + STEP_US * each.as_py() for each in ids], pa.timestamp("us", "UTC"))
    keys = pa.array([each.as_py() % 7 for each in ids], pa.int64())
    return pa.RecordBatch.from_arrays([keys, times, ids], ["k", "at", "v"])


def start(folder: Path, build: Build, restore: str | None, backend: Any = "heap") -> Any:
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(folder, every="50ms"),
        restore=restore,
        state=backend,
    )
    source = ms.connectors.Generate(SCHEMA, numbered, rows_per_second=4000)
    build(env.source(source, uid="in", watermark=ms.Watermark("at"))).sink(
        ms.connectors.Memory(), uid="out"
    )
    return env.start("changed")


def stopped(folder: Path, build: Build, *, drain: bool = False, backend: Any = "heap") -> None:
    """Leave a snapshot of the job in which some windows are open."""
    job = start(folder, build, None, backend)
    await_true(lambda: sum(each.rows for each in job.metrics().values()) > 2000, "rows were taken")
    job.stop(drain=drain)


def windowed(window: Any, **options: Any) -> Build:
    return lambda rows: (
        rows.key_by("k").window(window, **options).aggregate(n=ms.count(), uid="windows")
    )


def joined(**options: Any) -> Build:
    def build(rows: Any) -> Any:
        other = rows.map(lambda row: (row.k, row.at, row.v), "o long, t timestamp, w long", uid="m")
        left, right = rows.key_by("k"), other.key_by("o")
        return left.join(right, on=("at", "t"), uid="joined", **options)

    return build


NEAR = ms.interval("-1s", "1s")
CHANGES = {
    "a shorter window": (windowed(ms.tumbling("60s")), windowed(ms.tumbling("40s"))),
    "another offset": (windowed(ms.tumbling("60s")), windowed(ms.tumbling("60s", offset="7s"))),
    "another slide": (
        windowed(ms.sliding("60s", every="20s")),
        windowed(ms.sliding("60s", every="30s")),
    ),
    "windows that cumulate": (
        windowed(ms.sliding("60s", every="20s")),
        windowed(ms.cumulating("60s", every="20s")),
    ),
    "less lateness": (windowed(ms.tumbling("5s"), lateness="1h"), windowed(ms.tumbling("5s"))),
    "other numbers of rows": (windowed(ms.rows(1000)), windowed(ms.rows(900))),
    "an outer join": (joined(within=NEAR), joined(within=NEAR, how="left")),
    "a join in longer windows": (
        joined(window=ms.tumbling("60s"), how="left"),
        joined(window=ms.tumbling("90s"), how="left"),
    ),
    "another kind of join": (
        joined(window=ms.tumbling("60s"), how="left"),
        joined(as_of="left", how="left"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_while_rows_are_kept_for_what_it_was(
    change: str, tmp_path: Path
) -> None:
    before, after = CHANGES[change]
    stopped(tmp_path, before)
    with pytest.raises(MainstayError, match=r"keeps rows for .* and is now declared with"):
        start(tmp_path, after, "latest").wait(60)
    # And nothing was harmed.
    start(tmp_path, before, "latest").stop(drain=True)


def test_it_is_refused_by_a_database_too(tmp_path: Path) -> None:
    before, after = CHANGES["a shorter window"]
    stopped(tmp_path, before, backend=ms.RocksDB())
    with pytest.raises(MainstayError, match="keeps rows for windows of 60 s"):
        start(tmp_path, after, "latest", ms.RocksDB()).wait(60)


def test_a_drained_job_may_be_changed(tmp_path: Path) -> None:
    before, after = CHANGES["a shorter window"]
    stopped(tmp_path, before, drain=True)
    job = start(tmp_path, after, "latest")
    await_true(lambda: len(job.snapshots()) > 1, "it takes snapshots")
    job.stop(drain=True)


def test_an_interval_and_a_gap_may_be_changed(tmp_path: Path) -> None:
    far = ms.interval("-2s", "3s")
    for before, after in (
        (joined(within=NEAR), joined(within=far)),
        (windowed(ms.session("5s")), windowed(ms.session("3s"))),
    ):
        folder = tmp_path / str(id(before))
        stopped(folder, before)
        start(folder, after, "latest").stop(drain=True)
