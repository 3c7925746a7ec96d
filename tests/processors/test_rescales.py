"""Spark's own tests of a repartitioned query (D): a job that goes on with more subtasks, then with
fewer, on every backend. Real jobs on the embedded drive, a file of rows for each start;
``tests/spark/test_acceptance.py`` does the same on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import mainstay as ms
from mainstay.testing import Watermark, rows, run
from tests.processors import processors as p
from tests.processors.slices import VARIANTS, InRows, Recorded, Slices, Step, seconds, variant
from tests.services.postgres import name_of

DRIVE: Any = "embedded"
PARALLELISM = (2, 5, 3)
Build = Callable[[Any], Any]
"""Makes an operator of a keyed stream."""


def heap(request: Any, folder: Path) -> Any:
    return "heap"


def rocksdb(request: Any, folder: Path) -> Any:
    return ms.RocksDB(directory=str(folder / "databases"))


def postgres(request: Any, folder: Path) -> Any:
    dsn = request.getfixturevalue("dsn")
    return ms.Postgres(dsn, schema=f"states {name_of(dsn)}")


BACKENDS = [
    heap,
    rocksdb,
    pytest.param(postgres, marks=[pytest.mark.services, pytest.mark.xdist_group("postgres")]),
]


class Starts(Recorded):
    """A job in a folder: every start finds one file more, and has another parallelism."""

    def __init__(self, folder: Path, schema: str, build: Build, state: Any = "heap") -> None:
        super().__init__(schema, "id", build)
        self._folder = folder
        self._state = state
        (folder / "in").mkdir()

    def run(self, *given: tuple[Any, ...]) -> list[Any]:
        """What a start emits that finds these rows new."""
        start = len(self.steps)
        lines = [json.dumps(dict(zip(self.schema.names, row, strict=True))) for row in given]
        text = "".join(f"{line}\n" for line in lines)
        (self._folder / "in" / f"{start}.json").write_text(text)
        env = ms.Environment(
            spark=DRIVE,
            parallelism=PARALLELISM[start],
            snapshots=ms.Snapshots(self._folder / "snapshots"),
            state=self._state,
            restore="latest-or-new",
        )
        files = ms.connectors.Files(self._folder / "in", schema=self.schema)
        out = ms.connectors.Memory()
        self.build(env.source(files, uid="in").key_by("id")).sink(out, uid="out")
        assert env.start("job").wait(timeout=60) == "finished"
        self.steps.append(Step(tuple(out.rows()), rows=given))
        return sorted(out.rows())


def counting(key: Any, frames: Any, state: Any) -> Any:
    count = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((count,))
    yield pd.DataFrame({"id": [key[0]], "count": [count]})


def test_d_counts_of_a_function_with_a_group_state(tmp_path: Path) -> None:
    def build(keyed: Any) -> Any:
        return keyed.apply_in_pandas_with_state(counting, "id string, count int", "n int", uid="f")

    job = Starts(tmp_path, "id string", build)
    assert job.run(("a",), ("a",), ("b",), ("c",)) == [("a", 2), ("b", 1), ("c", 1)]
    assert job.run(("a",), ("b",), ("d",)) == [("a", 3), ("b", 2), ("d", 1)]
    assert job.run(("a",), ("c",), ("e",)) == [("a", 4), ("c", 2), ("e", 1)]


@pytest.mark.parametrize("how", VARIANTS)
def test_d_sums(how: type, tmp_path: Path) -> None:
    def build(keyed: Any) -> Any:
        made = variant(p.SumWithInitial, how)()
        return keyed.transform_with_state(made, made.output, in_pandas=made.in_pandas, uid="f")

    job = Starts(tmp_path, p.INPUT, build)
    first = job.run(("a", 100), ("a", 170), ("b", 50), ("c", 30))
    assert first == [("a", "270"), ("b", "50"), ("c", "30")]
    second = job.run(("a", 101), ("b", 102), ("d", 103))
    assert second == [("a", "371"), ("b", "152"), ("d", "103")]
    third = job.run(("a", 104), ("c", 105), ("e", 106))
    assert third == [("a", "475"), ("c", "135"), ("e", "106")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_d_values_lists_and_maps_on_every_backend(
    backend: Any, request: Any, tmp_path: Path
) -> None:
    def build(keyed: Any) -> Any:
        made = variant(p.Composite, InRows)()
        return keyed.transform_with_state(made, made.output, uid="f")

    job = Starts(tmp_path, p.INPUT, build, backend(request, tmp_path))
    begun = "[('a', 1), ('b', 2)] {'x': {'y': 1}}"
    assert job.run(*p.R1) == [("0", begun), ("1", begun)]
    assert job.run(*p.R2) == [
        ("0", "[('a', 1), ('b', 2), ('0', 669)] {'x': {'y': 1}, '0': {'total': 669}}"),
        ("1", "[('a', 1), ('b', 2), ('1', 252)] {'x': {'y': 1}, '1': {'total': 252}}"),
    ]
    assert job.run(("1", 5), ("2", 1)) == [
        ("1", "[('a', 1), ('b', 2), ('1', 252), ('1', 5)] {'x': {'y': 1}, '1': {'total': 5}}"),
        ("2", begun),
    ]


# ---------------------------------------------------------------- timers


class Quiet(p.Base):
    """Says of a key how many rows it had, ten seconds after the last."""

    output = "id string, rows long, at long"

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.rows = handle.getValueState("rows", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        times = [int(at.timestamp()) for at in self.values(rows, "at")]
        for at in self.handle.listTimers():
            self.handle.deleteTimer(at)
            times.append(at // 1000 - 10)
        before = self.rows.get()[0] if self.rows.exists() else 0
        listed = 1 if before else 0
        self.rows.update((before + len(times) - listed,))
        self.handle.registerTimer((max(times) + 10) * 1000)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at = expiredTimerInfo.getExpiryTimeInMs() // 1000
        yield self.out(id=key[0], rows=self.rows.get()[0], at=at)
        self.rows.clear()


@pytest.mark.parametrize("parallelism", [1, 4])
def test_13_timers_are_the_same_with_one_subtask(parallelism: int) -> None:
    def build(env: Any) -> None:
        source = rows("id string, at timestamp", [])
        events = env.source(source, uid="in", watermark=ms.Watermark("at"))
        made = variant(Quiet, InRows)()
        events.key_by("id").transform_with_state(
            made, made.output, time_mode="EventTime", uid="f"
        ).sink(ms.connectors.Memory(), uid="out")

    given = [
        *(("a", seconds(20)), ("b", seconds(21)), ("a", seconds(25)), Watermark(seconds(31))),
        *(("a", seconds(34)), ("b", seconds(35)), Watermark(seconds(44)), ("a", seconds(60))),
    ]
    found = run(build, {"in": given}, parallelism=parallelism).output("out")
    expected = [("a", 1, 70), ("a", 3, 44), ("b", 1, 31), ("b", 1, 45)]
    assert sorted(found) == expected


@pytest.mark.parametrize("how", VARIANTS)
def test_13_timers_outlast_slices(how: type) -> None:
    def build(keyed: Any) -> Any:
        made = variant(Quiet, how)()
        options = {"time_mode": "EventTime", "in_pandas": made.in_pandas, "uid": "f"}
        return keyed.transform_with_state(made, made.output, **options)

    job = Slices("id string, at timestamp", "id", build, time="at")
    assert job.take(("a", seconds(20)), ("b", seconds(21)), ("a", seconds(25))) == []
    assert job.watermark(31) == [("b", 1, 31)]
    assert job.take(("a", seconds(34)), ("b", seconds(35))) == []
    assert job.watermark(44) == [("a", 3, 44)]
    assert job.take(("a", seconds(60))) == []
    assert sorted(job.watermark(70)) == [("a", 1, 70), ("b", 1, 45)]
