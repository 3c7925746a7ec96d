"""Whole queries with a stateful function, as jobs: what Spark's own query would come to."""

# ruff: noqa: N802, N803 - the names are PySpark's

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors.ingest.log import IngestLog
from mainstay.snapshot.object_storage import open_storage
from tests.processors import processors as p
from tests.processors.slices import VARIANTS, InPandas, InRows, variant

pytestmark = pytest.mark.spark

PATIENCE_S = 90.0
CALLS: dict[type, Any] = {
    InRows: lambda *args, **more: ms.spark.transform_with_state(*args, **more),
    InPandas: lambda *args, **more: ms.spark.transform_with_state_in_pandas(*args, **more),
}
"""The function for each variant of a processor."""


class Feed:
    """A folder of JSON files, each of which is a micro-batch of a streaming DataFrame."""

    def __init__(self, spark: Any, folder: Path, schema: str) -> None:
        self._folder = folder
        self._names = [column.split()[0] for column in schema.split(", ")]
        self._files = 0
        folder.mkdir()
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        self.df = reader.json(str(folder))

    def add(self, *rows: tuple[Any, ...]) -> None:
        lines = [json.dumps(dict(zip(self._names, row, strict=True))) for row in rows]
        self._files += 1
        hidden = self._folder / f".{self._files:03d}.json"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        # Spark takes files in the order of their times, which have no more than milliseconds.
        os.utime(hidden, (time.time() - 1_000 + self._files,) * 2)
        hidden.rename(self._folder / hidden.name[1:])


def await_that(condition: Callable[[], bool], job: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert job.status not in ("failed", "cancelled", "finished"), job.wait()
        assert time.monotonic() < deadline, f"{what} did not come within {PATIENCE_S} s"
        time.sleep(0.05)


START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def at(second: int) -> str:
    return (START + timedelta(seconds=second)).isoformat()


def snapshots(folder: Path) -> ms.Snapshots:
    return ms.Snapshots(folder, every="300ms")


# ---------------------------------------------------------------- batch DataFrames


@pytest.mark.parametrize("how", VARIANTS)
def test_9_10_a_table_with_an_initial_state(spark: Any, how: type, tmp_path: Path) -> None:
    df = spark.createDataFrame(p.R1, p.INPUT)
    initial = spark.createDataFrame([(789, "0"), (987, "3")], "initVal int, id string")
    out = ms.connectors.Memory()
    query = CALLS[how](
        df.groupBy("id"),
        variant(p.SumWithInitial, how)(),
        p.SumWithInitial.output,
        "UPDATE",
        "none",
        initial.groupBy("id"),
        snapshots=tmp_path,
        sink=out,
        group="epoch",
    )
    assert query.start("table").wait(PATIENCE_S) == "finished"
    assert sorted(out.rows()) == [("0", "958"), ("1", "492")]


# ---------------------------------------------------------------- streaming DataFrames


class FirstSeen(p.Base):
    """The time of the first row of a key."""

    output = "id string, seen timestamp"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.first = handle.getValueState("first", "at timestamp")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        times = self.values(rows, "at")
        if not self.first.exists():
            self.first.update((min(times),))
            yield self.out(id=key[0], seen=min(times))


def test_8_event_time_goes_on_behind_the_processor(spark: Any, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "in", "id string, at timestamp")
    feed.add(("a", at(10)), ("b", at(15)), ("z", at(100)), ("y", at(1)))
    query = ms.spark.transform_with_state(
        feed.df.withWatermark("at", "10 seconds").groupBy("id"),
        variant(FirstSeen, InRows)(),
        FirstSeen.output,
        "append",
        "eventTime",
        eventTimeColumnName="seen",
        snapshots=snapshots(tmp_path / "job"),
    )
    out = ms.connectors.Memory()
    windows = query.stream.key_by("seen").window(ms.tumbling("1s"))
    windows.aggregate(n=ms.count(), uid="counts").sink(out, uid="out")
    job = query.start("chained")
    # No row is late by one of its own micro-batch.
    await_that(lambda: len(out.rows()) >= 3, job, "windows up to the watermark of the first batch")
    feed.add(("late", at(80)), ("c", at(125)))
    await_that(lambda: len(out.rows()) >= 4, job, "windows up to the watermark of the last batch")
    job.stop()
    found = {row[0].second + 60 * row[0].minute: row[-1] for row in out.rows()}
    assert found == {1: 1, 10: 1, 15: 1, 100: 1}


class Counts(p.Base):
    """Counts rows by key, and how much there was at the beginning."""

    output = "id string, count long"

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        for value in self.initial(initialState, "n"):
            self.count.update((value,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        before = self.count.get()[0] if self.count.exists() else 0
        count = before + len(self.values(rows, "id"))
        self.count.update((count,))
        yield self.out(id=key[0], count=count)


def highest(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, count in rows:
        found[key] = max(count, found.get(key, 0))
    return found


def test_counts_are_exact_through_a_kill_a_rescale_and_a_restart(
    spark: Any, tmp_path: Path
) -> None:
    feed = Feed(spark, tmp_path / "in", "id string, at timestamp")
    initial = spark.createDataFrame([(1_000, "k0")], "n long, id string")
    out = ms.connectors.Memory()

    def started(parallelism: int) -> Any:
        query = ms.spark.transform_with_state(
            feed.df.withWatermark("at", "10 seconds").groupBy("id"),
            variant(Counts, InRows)(),
            Counts.output,
            "append",
            "none",
            initial.groupBy("id"),
            snapshots=snapshots(tmp_path / "job"),
            parallelism=parallelism,
            sink=out,
        )
        return query.start("counts")

    def feed_more() -> None:
        feed.add(*((f"k{n % 7}", at(n)) for n in range(70)))

    def await_rows(times: int, job: Any) -> None:
        expected = {f"k{n}": 10 * times + (1_000 if n == 0 else 0) for n in range(7)}
        await_that(lambda: highest(out.rows()) == expected, job, f"{expected}")

    feed_more()
    job = started(1)
    await_rows(1, job)
    os.kill(job.workers()[0][1], signal.SIGKILL)
    feed_more()
    await_rows(2, job)
    assert len(job.attempts()) == 2
    job.rescale(3)
    feed_more()
    await_rows(3, job)
    job.stop()
    feed_more()
    job = started(2)
    await_rows(4, job)
    log = IngestLog(open_storage(str(tmp_path / "job")), "processor-rows")
    await_that(lambda: log.batches()[:1] > [0], job, "a batch that no epoch needs is deleted")
    job.stop()


def counting(key: Any, frames: Any, state: Any) -> Any:
    import pandas as pd

    seconds = [second for frame in frames for second in frame["second"]]
    before = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"id": [key[0]], "count": [-before]})
    else:
        count = before + len(seconds)
        state.update((count,))
        state.setTimeoutTimestamp(int(START.timestamp() + max(seconds) + 20) * 1_000)
        yield pd.DataFrame({"id": [key[0]], "count": [count]})


def test_a_function_with_a_group_state(spark: Any, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path / "in", "id string, at timestamp, second long")
    feed.add(("a", at(100), 100), ("a", at(101), 101), ("b", at(101), 101))
    out = ms.connectors.Memory()
    query = ms.spark.apply_in_pandas_with_state(
        feed.df.withWatermark("at", "1 second").groupBy("id"),
        counting,
        "id string, count long",
        "n long",
        "Update",
        "EventTimeTimeout",
        snapshots=snapshots(tmp_path / "job"),
        sink=out,
        uid="counts",
    )
    job = query.start("counts")
    await_that(lambda: len(out.rows()) >= 2, job, "the first rows")
    feed.add(("b", at(130), 130))
    feed.add(("c", at(200), 200))
    await_that(lambda: ("b", -2) in out.rows(), job, "the last timeout")
    job.stop()
    assert sorted(out.rows()) == [("a", -2), ("a", 2), ("b", -2), ("b", 1), ("b", 2), ("c", 1)]
