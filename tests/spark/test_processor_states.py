"""States of PySpark's processors as DataFrames: the rows that Spark's own reader of state gives
(33 to 36 of its tests), under our names."""

# ruff: noqa: N802, N803 - the names are PySpark's

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.spark.processors.settings import current_settings
from tests.processors import processors as p
from tests.processors.slices import InRows, variant

pytestmark = pytest.mark.spark


class KeptLists(p.Base):
    """The lists of Spark's test, and a timer that is never due."""

    output = "id string"

    def init(self, handle: Any) -> None:
        self.handle = handle
        schema = "temperature int"
        self.one = handle.getListState("listState1", schema)
        self.two = handle.getListState("listState2", schema)
        self.empty = handle.getListState("listState3", schema)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        list(rows)
        for state, added in ((self.one, 111), (self.two, 222)):
            state.put([(120,), (20,)])
            state.appendValue((added,))
            state.appendList([(120,), (20,)])
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 10**9)
        return iter([])


class Stored:
    """A job whose state is read when it has finished."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def run(self, processor: type, time_mode: str = "None", initial: Any = None) -> None:
        snapshots = ms.Snapshots(self._folder)
        env = ms.Environment(spark="embedded", parallelism=1, snapshots=snapshots)
        keyed = env.source(ms.connectors.Rows(p.INPUT, p.R1), uid="in").key_by("id")
        made = variant(processor, InRows)()
        keyed.transform_with_state(
            made, made.output, time_mode=time_mode, initial_state=initial, uid="f"
        ).sink(ms.connectors.Memory(), uid="out")
        assert env.start("job").wait(timeout=60) == "finished"

    def rows(self, state: str, *columns: str) -> list[tuple[Any, ...]]:
        df = ms.spark.read_state(self._spark, str(self._folder), operator="f", state=state)
        return sorted(tuple(row) for row in df.select(*columns).collect())


@pytest.fixture
def stored(spark: Any, tmp_path: Path) -> Stored:
    return Stored(spark, tmp_path)


def test_33_a_map_with_a_time_to_live(stored: Stored) -> None:
    stored.run(p.MapsTtl, "ProcessingTime")
    columns = ("id", "map_key.name", "mapState.count")
    assert stored.rows("mapState", *columns) == [("0", "key2", 2), ("1", "key2", 2)]
    # Both were touched in one slice, whose clock stands still.
    assert len({touched for (touched,) in stored.rows("mapState", "touched_at")}) == 1
    assert stored.rows("listState", "id") == []


def test_34_a_value_that_began_with_an_initial_state(stored: Stored) -> None:
    initial = ms.connectors.Rows("initVal int, id string", [(789, "0"), (987, "3")])
    stored.run(p.SumWithInitial, initial=initial)
    values = stored.rows("value_state", "id", "value_state.value")
    assert values == [("0", 958), ("1", 492), ("3", 987)]


def test_35_lists_and_timers(stored: Stored) -> None:
    stored.run(KeptLists, "ProcessingTime")
    for state, added in (("listState1", 111), ("listState2", 222)):
        found = stored.rows(state, "id", f"{state}.temperature")
        assert found == [(key, [120, 20, added, 120, 20]) for key in ("0", "1")]
    assert stored.rows("listState3", "id") == []
    assert [key for (key,) in stored.rows("processing_timers", "id")] == ["0", "1"]


def test_36_a_value(stored: Stored) -> None:
    stored.run(p.Simple)
    values = stored.rows("numViolations", "id", "numViolations.value")
    assert values == [("0", 1), ("1", 2)]


def test_18_the_limits_of_a_session_are_known(spark: Any) -> None:
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    spark.conf.set(name, "2k")
    try:
        assert current_settings().bytes_per_frame == 2048
    finally:
        spark.conf.unset(name)
