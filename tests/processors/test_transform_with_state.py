"""Spark's own tests of ``transformWithState``, each micro-batch as a slice, in both variants.

The numbers are those of Spark's files in their order; ``acceptance`` names them all.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.processors import processors as p
from tests.processors.slices import VARIANTS, Slices, seconds, variant

pytestmark = pytest.mark.parametrize("how", VARIANTS)


def slices(
    processor: type, how: type, *, schema: str = p.INPUT, key: Any = "id", **options: Any
) -> Slices:
    made = variant(processor, how)()
    time = options.pop("time", None)

    def build(keyed: Any) -> Any:
        return keyed.transform_with_state(
            made, processor.output, in_pandas=made.in_pandas, uid="f", **options
        )

    return Slices(schema, key, build, time=time)


def test_1_basic(how: type) -> None:
    run = slices(p.Simple, how)
    assert dict(run.take(*p.R1)) == {"0": "2", "1": "2"}
    assert dict(run.take(*p.R2)) == {"0": "3", "1": "2"}
    assert run.state("numViolations", "0").value == 4
    assert run.state("numViolations", "1").value == 3


def test_3_timers_of_the_wall_clock(how: type) -> None:
    run = slices(p.ProcTime, how, time_mode="ProcessingTime")
    assert sorted(run.take(*p.R3)) == [("0", "1"), ("1", "1")]
    run.clock.now += 1
    assert sorted(run.take(*p.R1)) == [("0", "-1"), ("0", "3"), ("1", "3")]
    run.clock.now += 1
    assert sorted(run.take(*p.R2)) == [("0", "-1"), ("0", "3"), ("1", "5")]
    assert run.wait(1) == [("0", "-1")], "also when nothing comes, unlike in Spark"


def test_3_timers_fire_while_nothing_comes(how: type) -> None:
    """As the machine's clock has it: a timer for the next millisecond does not wait for rows."""
    run = slices(p.ProcTime, how, time_mode="ProcessingTime")
    assert sorted(run.take(*p.R3)) == [("0", "1"), ("1", "1")]
    assert run.wait(0.001) == [("0", "-1")]
    assert sorted(run.take(*p.R1)) == [("0", "2"), ("1", "3")]
    assert run.wait(0.001) == [("0", "-1")]


def test_4_event_time(how: type) -> None:
    run = slices(
        p.EventTime,
        how,
        schema="id string, eventTime timestamp",
        time="eventTime",
        time_mode="eventTime",
    )
    assert run.take(("a", seconds(20))) == [("a", "20"), ("a-expired", "0")]
    run.watermark(10)
    # Spark's filter lags a batch behind its watermark, so there this row still passes.
    assert run.take(("a", seconds(4))) == []
    rows = [("a", seconds(at)) for at in (2, 11, 13, 15)]
    assert run.take(*rows) == [("a", "15"), ("a-expired", "10000")]
    assert run.operator.late_rows == 2


@pytest.mark.parametrize("mode", ["None", "ProcessingTime"])
def test_5_no_row_is_late_without_event_time(how: type, mode: str) -> None:
    run = slices(
        p.MinEventTime,
        how,
        schema="id string, eventTime timestamp",
        time="eventTime",
        time_mode=mode,
    )
    found = []
    for batch in ([20], [4], [2, 11, 13, 15]):
        found += run.take(*[("a", seconds(at)) for at in batch])
        run.watermark(10)
    assert found == [("a", "20"), ("a", "4"), ("a", "2")]


def test_6_non_contiguous_grouping_columns(how: type) -> None:
    run = slices(
        p.NonContiguous, how, schema="id1 string, temperature int, id2 string", key=("id1", "id2")
    )
    rows = [("0", 123, "1"), ("0", 46, "1"), ("1", 146, "2"), ("1", 346, "2")]
    assert sorted(run.take(*rows)) == [("0", "1", "169"), ("1", "2", "492")]


def test_9_a_map(how: type) -> None:
    assert sorted(slices(p.Maps, how).take(*p.R1)) == [("0", "2"), ("1", "2")]


def test_11_composite_types(how: type) -> None:
    run = slices(p.Composite, how)
    assert sorted(run.take(*p.R1)) == [
        (key, "[('a', 1), ('b', 2)] {'x': {'y': 1}}") for key in ("0", "1")
    ]
    assert sorted(run.take(*p.R2)) == [
        ("0", "[('a', 1), ('b', 2), ('0', 669)] {'x': {'y': 1}, '0': {'total': 669}}"),
        ("1", "[('a', 1), ('b', 2), ('1', 252)] {'x': {'y': 1}, '1': {'total': 252}}"),
    ]


def test_12_composite_output(how: type) -> None:
    run = slices(p.CompositeOutput, how)
    assert [row[3] for row in sorted(run.take(*p.R1), key=str)] == [2, 2]
    found = sorted(run.take(*p.R2), key=str)
    assert [row[3] for row in found] == [5, 4]
    nested = [{"n": 5, "name": "0"}, {"n": None, "name": "x"}]
    assert found[0][1:3] == (nested, [("k", {"n": 5})])


def test_20_large_values(how: type) -> None:
    assert sorted(slices(p.Large, how).take(*p.R3)) == [("0", True), ("1", True)]


# ------------------------------------------------------------ test_..._state_variable.py


def test_22_a_state_that_is_not_there(how: type) -> None:
    assert sorted(slices(p.NoValue, how).take(*p.R1)) == [("0", "0"), ("1", "0")]


@pytest.mark.parametrize("processor", [p.Lists, p.ListsTtl])
def test_23_25_lists(how: type, processor: type) -> None:
    run = slices(processor, how, time_mode="ProcessingTime")
    assert sorted(run.take(*p.R1)) == [("0", "2"), ("1", "2")]


def test_24_a_large_list(how: type) -> None:
    run = slices(p.LargeList, how)
    first = ",".join(map(str, range(100)))
    whole = ",".join(map(str, range(190)))
    assert sorted(run.take(*p.R1)) == [("0", "", first), ("1", "", first)]
    assert sorted(run.take(*p.R2)) == [("0", first, whole), ("1", first, whole)]


@pytest.mark.parametrize("processor", [p.Maps, p.MapsTtl])
def test_26_27_maps(how: type, processor: type) -> None:
    run = slices(processor, how, time_mode="ProcessingTime")
    assert sorted(run.take(*p.R1)) == [("0", "2"), ("1", "2")]


def test_28_a_value_with_a_time_to_live(how: type) -> None:
    run = slices(p.SimpleTtl, how, time_mode="processingtime")
    assert dict(run.take(*p.R1)) == {"0": "2", "1": "2"}
    assert dict(run.take(*p.R2)) == {"0": "3", "1": "2"}


def test_29_what_has_expired_is_gone(how: type) -> None:
    run = slices(p.Expiring, how, time_mode="ProcessingTime")
    names = ("count", "ttl-count", "ttl-list", "ttl-map")

    def counts() -> dict[str, tuple[int, ...]]:
        found = dict(run.take(("1", 0), ("0", 0)))
        return {key: tuple(found[f"{name}-{key}"] for name in names) for key in ("0", "1")}

    assert counts() == {"0": (1, 1, 1, 1), "1": (1, 1, 1, 1)}
    run.wait(4)
    assert counts() == {"0": (2, 2, 3, 2), "1": (2, 2, 3, 2)}
    run.wait(7)
    # Key 0 was not written again in the second slice, so what it had has expired.
    assert counts() == {"0": (3, 1, 1, 1), "1": (3, 3, 7, 3)}


def test_29_an_entry_that_is_not_written_again_expires_alone(how: type) -> None:
    run = slices(AppendsWithTtl, how, time_mode="ProcessingTime")
    assert run.take(("0", 1)) == [("0", "[1] [1]")]
    run.wait(6)
    assert run.take(("0", 2)) == [("0", "[1, 2] [1, 2]")]
    run.wait(6)
    assert run.take(("0", 3)) == [("0", "[2, 3] [2, 3]")]


class AppendsWithTtl(p.Base):
    """Elements of a list and entries of a map have a time of their own."""

    output = "id string, shown string"

    def init(self, handle: Any) -> None:
        self.list = handle.getListState("l", "n int", 10000)
        self.map = handle.getMapState("m", "n int", "n int", 10000)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for value in self.values(rows, "temperature"):
            self.list.appendValue((value,))
            self.map.updateValue((value,), (value,))
        elements, entries = list(self.list.get()), sorted(self.map.iterator())
        shown = [each[0] for each in elements], [each[0] for each, _ in entries]
        yield self.out(id=key[0], shown=f"{shown[0]} {shown[1]}")
