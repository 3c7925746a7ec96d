"""Spark queries that are stopped half-way, and the same functions in jobs that go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms

SCHEMA = "user string, page string, n long, at timestamp"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR_MS = 3_600_000
PATIENCE_S = 60
USERS = 3


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def write_numbers(folder: Path, name: str, numbers: Sequence[int]) -> None:
    """A file with a row for each number, of users and pages in turn."""
    rows = [(f"u{n % USERS}", n) for n in numbers]
    write_clicks(folder, name, rows)


def write_clicks(folder: Path, name: str, clicks: Sequence[tuple[str, int]]) -> None:
    """A file with rows of users, each at a second."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"user": user, "page": f"/p{n % 2}", "n": n, "at": at(n).isoformat()} for user, n in clicks
    ]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


class Kinds(StatefulProcessor):
    """Has every kind of state, with and without a time to live, and timers by the clock."""

    output = "user string, page string, told string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n long, at timestamp")
        self.numbers = handle.getListState("numbers", "n int, parts struct<half:double>")
        self.by_page = handle.getMapState("by_page", "page string, parity int", "n long")
        self.last = handle.getValueState("last", "n long", ttlDurationMs=HOUR_MS)
        self.recent = handle.getListState("recent", "n long", ttlDurationMs=HOUR_MS)
        self.seen = handle.getMapState("seen", "n long", "page string", ttlDurationMs=HOUR_MS)
        self.brief = handle.getListState("brief", "n long", ttlDurationMs=1)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            before = self.total.get()
            self.total.update(((before[0] if before else 0) + row.n, row.at))
            self.numbers.appendValue((row.n, (row.n / 2,)))
            known = self.by_page.getValue((row.page, row.n % 2))
            self.by_page.updateValue((row.page, row.n % 2), ((known.n if known else 0) + 1,))
            self.last.update((row.n,))
            self.recent.appendValue((row.n,))
            self.seen.updateValue((row.n,), (row.page,))
            self.brief.appendValue((row.n,))
            self.handle.registerTimer(4_000_000_000_000 + row.n)
        yield Row(user=key[0], page=key[1], told=self._told())

    def _told(self) -> str:
        return json.dumps(
            [
                self.total.get()[0],
                sorted((n, parts.half) for n, parts in self.numbers.get()),
                sorted((*entry, n) for entry, (n,) in self.by_page.iterator()),
                self.last.exists(),
                sorted(n for (n,) in self.recent.get()),
                sorted((n, page) for (n,), (page,) in self.seen.iterator()),
                sorted(self.handle.listTimers()),
            ]
        )

    def close(self) -> None:
        pass


class Changed(StatefulProcessor):
    """What ``Kinds`` has, in part, with other times to live."""

    output = "user string"

    def init(self, handle: Any) -> None:
        for name in ("numbers", "by_page", "recent"):
            handle.deleteIfExists(name)
        handle.getValueState("total", "n long, at timestamp", ttlDurationMs=HOUR_MS)
        handle.getValueState("last", "n long", ttlDurationMs=2 * HOUR_MS)
        handle.getMapState("seen", "n long", "page string")
        handle.getListState("brief", "n long")
        handle.getValueState("added", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        return iter(())

    def close(self) -> None:
        pass


class Sessions(StatefulProcessor):
    """Counts the rows of a user until none has come for three seconds of event time."""

    output = "user string, n long, ended timestamp"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            known = self.count.get()
            self.count.update(((known[0] if known else 0) + 1,))
            for timer in self.handle.listTimers():
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(int(row.at.timestamp() * 1000) + 3000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        ended = datetime.fromtimestamp(expiredTimerInfo.getExpiryTimeInMs() / 1000, timezone.utc)
        yield Row(user=key[0], n=self.count.get()[0], ended=ended)
        self.count.clear()

    def close(self) -> None:
        pass


def run_query(
    spark: Any,
    folder: Path,
    apply: Callable[[Any], Any],
    *,
    rows: Any = None,
    watermark: bool = False,
    **options: str,
) -> list[tuple[Any, ...]]:
    """A query over the files of a folder, or over other rows, until they are all read; what it has
    emitted."""
    out = folder / "spark-out"
    if rows is None:
        rows = spark.readStream.schema(SCHEMA).options(**options).json(str(folder / "in"))
    if watermark:
        rows = rows.withWatermark("at", "1 second")
    query = (
        apply(rows)
        .writeStream.format("parquet")
        .option("path", str(out))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [tuple(row) for row in spark.read.parquet(str(out)).collect()]


class GoesOn:
    """A job over the same rows, of which each start is given what it goes on from."""

    def __init__(
        self,
        folder: Path,
        apply: Callable[[Any], Any],
        *,
        source: Any = None,
        watermark: bool = False,
    ) -> None:
        self.folder = folder
        self._apply = apply
        self._source = source or ms.connectors.Files(folder / "in", schema=SCHEMA)
        self._watermark = ms.Watermark("at", delay="1s") if watermark else None

    def build(self, name: str, **settings: Any) -> tuple[ms.Environment, Any]:
        settings = {"spark": "embedded", "parallelism": 1, **settings}
        snapshots = ms.Snapshots(self.folder / f"snapshots-{name}")
        env = ms.Environment(snapshots=snapshots, **settings)
        out = ms.connectors.Memory()
        rows = env.source(self._source, uid="clicks", watermark=self._watermark)
        self._apply(rows).sink(out, uid="out")
        return env, out

    def run(self, name: str, **settings: Any) -> list[tuple[Any, ...]]:
        """What a job emits."""
        env, out = self.build(name, **settings)
        assert env.start(name).wait(timeout=PATIENCE_S) == "finished"
        found: list[tuple[Any, ...]] = out.rows()
        return found


def by_kinds(rows: Any) -> Any:
    """``Kinds`` in a query or in a job."""
    if isinstance(rows, ms.Stream):
        return rows.key_by("user", "page").transform_with_state(
            Kinds(), Kinds.output, time_mode="ProcessingTime", uid="kinds"
        )
    return rows.groupBy("user", "page").transformWithState(
        Kinds(), Kinds.output, "Append", "ProcessingTime"
    )


def by_sessions(rows: Any) -> Any:
    """``Sessions`` in a query or in a job."""
    if isinstance(rows, ms.Stream):
        return rows.key_by("user").transform_with_state(
            Sessions(), Sessions.output, time_mode="EventTime", uid="sessions"
        )
    return rows.groupBy("user").transformWithState(
        Sessions(), Sessions.output, "Append", "EventTime"
    )


def counted(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Counts the rows of a user until ten seconds after the last."""
    if state.hasTimedOut:
        yield pd.DataFrame({"user": [key[0]], "n": [state.get[0]], "is_over": [True]})
        state.remove()
        return
    n, newest = state.get if state.exists else (0, 0)
    for frame in frames:
        n += len(frame)
        newest = max(newest, int(frame["n"].max()))
    state.update((n, newest))
    state.setTimeoutTimestamp(int(at(newest + 10).timestamp() * 1000))
    yield pd.DataFrame({"user": [key[0]], "n": [n], "is_over": [False]})


COUNTED, KEPT = "user string, n long, is_over boolean", "n long, newest long"


def by_group_states(rows: Any) -> Any:
    """``counted`` in a query or in a job."""
    if isinstance(rows, ms.Stream):
        return rows.key_by("user").apply_in_pandas_with_state(
            counted, COUNTED, KEPT, "Append", "EventTimeTimeout", uid="counts"
        )
    return rows.groupBy("user").applyInPandasWithState(
        counted, COUNTED, KEPT, "Append", "EventTimeTimeout"
    )


def last_by_key(rows: Sequence[tuple[Any, ...]], keys: int) -> dict[Any, Any]:
    """The longest that was told of each key: what is told only grows."""
    found: dict[Any, Any] = {}
    for row in sorted(rows, key=lambda row: len(row[-1])):
        found[row[:keys]] = json.loads(row[-1])
    return found
