"""Queries that process what is available now and stop by themselves; started again, they go on."""

# ruff: noqa: N802, N803 - the names are PySpark's

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from tests.processors import processors as p
from tests.processors.slices import InRows, variant
from tests.spark.test_stateful_queries import (
    PATIENCE_S,
    START,
    Counts,
    Feed,
    at,
    await_that,
    snapshots,
)

pytestmark = pytest.mark.spark


class Sessions(p.Base):
    """Tells of a key when ten seconds of event time have passed since its last row."""

    output = "id string, n long"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.rows = handle.getValueState("rows", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        times = [int(time.timestamp() * 1000) for time in self.values(rows, "at")]
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        before = self.rows.get()[0] if self.rows.exists() else 0
        self.rows.update((before + len(times),))
        self.handle.registerTimer(max(times) + 10_000)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield self.out(id=key[0], n=self.rows.get()[0])
        self.rows.clear()


class Started:
    """A query over a feed that is started again and again, until it stops by itself."""

    def __init__(self, spark: Any, folder: Path, processor: type, time_mode: str) -> None:
        self.feed = Feed(spark, folder / "in", "id string, at timestamp")
        self._processor = processor
        self._mode = time_mode
        self._snapshots = snapshots(folder / "job")

    def start(self) -> tuple[Any, Any]:
        out = ms.connectors.Memory()
        query = ms.spark.transform_with_state(
            self.feed.df.withWatermark("at", "5 seconds").groupBy("id"),
            variant(self._processor, InRows)(),
            self._processor.output,  # type: ignore[attr-defined]
            "update",
            self._mode,
            snapshots=self._snapshots,
            parallelism=1,
            sink=out,
            available_now=True,
        )
        return query.start("now"), out

    def run(self) -> list[Any]:
        """What a start emits until it stops."""
        job, out = self.start()
        assert job.wait(PATIENCE_S) == "stopped"
        return sorted(out.rows())


def test_a_query_goes_on_with_what_is_new(spark: Any, tmp_path: Path) -> None:
    query = Started(spark, tmp_path, Counts, "none")
    query.feed.add(("a", at(1)), ("b", at(2)))
    query.feed.add(("a", at(3)))
    assert query.run() == [("a", 1), ("a", 2), ("b", 1)]
    query.feed.add(("a", at(4)), ("c", at(5)))
    job, out = query.start()
    await_that(lambda: bool(job.workers()), job, "a worker")
    os.kill(job.workers()[0][1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "stopped"
    assert sorted(out.rows()) == [("a", 3), ("c", 1)]
    assert query.run() == [], "there is nothing new"


def test_timers_wait_for_their_time_from_start_to_start(spark: Any, tmp_path: Path) -> None:
    """A stop is no end of input: only what the watermark has passed fires."""
    query = Started(spark, tmp_path, Sessions, "eventTime")
    query.feed.add(("a", at(0)), ("b", at(12)), ("c", at(20)))
    assert query.run() == [("a", 1)]
    query.feed.add(("b", at(16)), ("z", at(32)))
    assert query.run() == [("b", 2)]
    query.feed.add(("z", at(60)))
    assert query.run() == [("c", 1)], "z has come again before its time"


def test_what_would_not_end_is_refused(spark: Any, tmp_path: Path) -> None:
    table = spark.createDataFrame([("a", START)], "id string, at timestamp")
    with pytest.raises(GraphError, match="is a batch one, which has an end anyway"):
        ms.spark.transform_with_state(
            *(table.groupBy("id"), variant(Counts, InRows)(), Counts.output, "update", "none"),
            snapshots=tmp_path / "job",
            available_now=True,
        )
    feed = Feed(spark, tmp_path / "in", "id string, at timestamp")
    env = ms.Environment(spark=spark, parallelism=1, snapshots=snapshots(tmp_path / "job"))
    rows = env.from_dataframe(feed.df, uid="rows", available_now=True)
    rows.sink(ms.connectors.Memory(), uid="out")
    more = env.source(ms.connectors.Sequence(), uid="numbers")
    more.sink(ms.connectors.Memory(), uid="numbered")
    with pytest.raises(GraphError, match=r"'rows' is read with available_now=True.*'numbers'"):
        env.start("endless")
