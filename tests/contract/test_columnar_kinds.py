"""What every keyed backend must do with sets, best rows and accumulators of a job's author."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.schema import to_schema
from mainstay.state.accumulating import accumulating, result
from mainstay.state.aggregates import aggregation_of
from mainstay.state.grouping import Grouper
from mainstay.state.hashing import groups_of
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import subtask_of
from mainstay.state.values import ValueType
from tests.key_hashes import hash_keys

SCHEMA = to_schema("k string, v long, s string, x double, d date")
NAN = float("nan")
DAY = date(2024, 1, 1)


class Spread(ms.AggregateFunction):
    """The distance between the least and the greatest value, which can be merged."""

    def create(self) -> Any:
        return None, None

    def add(self, accumulator: Any, value: Any) -> Any:
        low, high = accumulator
        return min(value, value if low is None else low), max(
            value, value if high is None else high
        )

    def merge(self, accumulator: Any, other: Any) -> Any:
        return min(accumulator[0], other[0]), max(accumulator[1], other[1])

    def result(self, accumulator: Any) -> Any:
        return accumulator[1] - accumulator[0]


class Path(ms.AggregateFunction):
    """The values one after the other, which have an order: nothing can be merged."""

    def create(self) -> Any:
        return []

    def add(self, accumulator: Any, value: Any) -> None:
        accumulator.append(value.v)

    def result(self, accumulator: Any) -> Any:
        return "-".join(map(str, accumulator))


AGGREGATION = aggregation_of(
    {
        "numbers": ms.count_distinct("v"),
        "texts": ms.count_distinct("s", where=ms.col("v") > 10),
        "reals": ms.count_distinct("x"),
        "days": ms.count_distinct("d"),
        "top": ms.max_by("x", "s"),
        "low": ms.min_by("s", ["v", "d"], where=ms.col("v") > 10),
        "spread": ms.udaf(Spread(), "v", accumulator="struct<a:long,b:long>", returns="long"),
        "path": ms.udaf(Path(), ["v", "s"], returns="string", where=ms.col("v") < 20),
        "n": ms.count(where=ms.col("v") > 10),
    },
    SCHEMA,
)
PARTS = [accumulating(each) for each in AGGREGATION.accumulators]
KEYS = ["a", "b", "", "ä"]


@dataclass(frozen=True)
class Aggregates:
    """Stands where other tests have a declaration."""

    def info(self) -> StateInfo:
        return AGGREGATION.state()


STATES: Mapping[str, Any] = {"aggregates": Aggregates()}


def rows_of(start: int, count: int, keys: list[str] = KEYS) -> list[tuple[Any, ...]]:
    """Rows whose values come again after a while, with all that is odd among them."""
    found = []
    for n in range(start, start + count):
        real = [NAN, -0.0, 0.0, None, float(n % 90)][n % 5]
        text = None if n % 7 == 0 else f"t{n % 80}"
        found.append((keys[n % len(keys)], n % 400, text, real, DAY + timedelta(days=n % 300)))
    return found


def fold(backend: Any, rows: list[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Fold rows in; what is then emitted for their keys."""
    columns = [pa.array([row[n] for row in rows], SCHEMA.types[n]) for n in range(len(SCHEMA))]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    groups = Grouper().group(batch.column(0))
    keys = batch.column(0).take(pa.array(groups.rows))
    partials = [part.combine_rows(batch, groups) for part in PARTS]
    kept = backend.states.aggregates.fold(keys, partials)
    outputs = [result(output, kept, PARTS).to_pylist() for output in AGGREGATION.outputs]
    return dict(zip(keys.to_pylist(), zip(*outputs, strict=True), strict=True))


def expected(rows: list[tuple[Any, ...]], key: str) -> tuple[Any, ...]:
    """The same by a loop."""
    own = [row for row in rows if row[0] == key]
    large = [row for row in own if row[1] > 10]
    small = [row for row in own if row[1] < 20]
    reals = [row for row in own if row[3] is not None]
    top = next((r for r in reals if r[3] != r[3]), None) or max(
        reals, key=lambda row: row[3], default=None
    )
    low = min((row for row in large if row[2] is not None), key=lambda r: r[2], default=None)
    numbers = [row[1] for row in own]
    return (
        len(set(numbers)),
        len({row[2] for row in large} - {None}),
        len({"nan" if row[3] != row[3] else row[3] + 0.0 for row in reals}),
        len({row[4] for row in own}),
        None if top is None else top[2],
        None if low is None else {"v": low[1], "d": low[4]},
        max(numbers) - min(numbers),
        "-".join(str(row[1]) for row in small) or None,
        len(large),
    )


def check(found: Mapping[str, Any], rows: list[tuple[Any, ...]]) -> None:
    assert found == {key: expected(rows, key) for key in found}


def contents(*backends: Any) -> dict[Any, Any]:
    """What is kept, with sets in place of the lists of distinct values."""
    found = {}
    for backend in backends:
        for key, row in backend.contents("aggregates").items():
            lists = [{repr(each) for each in row[n]} for n in range(4)]
            assert [len(each) for each in lists] == [len(row[n]) for n in range(4)]
            found[key] = (*lists, *map(repr, row[4:]))
    return found


@pytest.mark.parametrize("size", [3, 150])
def test_folds_give_what_a_loop_gives(open_backend: Any, size: int) -> None:
    backend = open_backend(STATES, "string")
    rows: list[tuple[Any, ...]] = []
    for number in range(8):
        new = rows_of(number * size, size)
        rows += new
        check(fold(backend, new), rows)


def test_a_snapshot_holds_what_was_there_when_it_was_taken(open_backend: Any) -> None:
    backend = open_backend(STATES, "string")
    fold(backend, rows_of(0, 700))
    before, cut = contents(backend), backend.freeze()
    fold(backend, rows_of(700, 500, KEYS[:2]))
    between, later = contents(backend), backend.freeze()
    fold(backend, rows_of(1200, 400, KEYS[1:]))
    first, second = backend.write(cut), backend.write(later)
    assert contents(open_backend.reopen(STATES, first, "string")) == before
    assert contents(open_backend.reopen(STATES, second, "string")) == between
    assert before != between


def test_a_restored_key_goes_on_at_any_parallelism(open_backend: Any) -> None:
    backend = open_backend(STATES, "string")
    rows = rows_of(0, 500)
    fold(backend, rows)
    stored = [backend.snapshot()]
    for number, parallelism in enumerate((3, 1, 2)):
        backends = open_backend.restore(STATES, stored, parallelism, "string")
        new = rows_of(500 + 300 * number, 300)
        rows += new
        for key in KEYS:
            group = int(groups_of(hash_keys([key], ValueType.of("string").arrow), 128)[0])
            opened = backends[subtask_of(group, parallelism, 128)]
            check(fold(opened, [row for row in new if row[0] == key]), rows)
        stored = [opened.snapshot() for opened in backends]


def test_files_of_a_chain_can_be_merged(open_backend: Any) -> None:
    backend = open_backend(STATES, "string")
    for number in range(4):
        fold(backend, rows_of(number * 200, 200))
        backend.snapshot()
    backend.compact()
    fold(backend, rows_of(800, 20))
    stored, before = backend.snapshot(), contents(backend)
    assert contents(open_backend.reopen(STATES, stored, "string")) == before


def test_a_look_from_outside_gives_lists(open_backend: Any) -> None:
    backend = open_backend(STATES, "string")
    fold(backend, rows_of(0, 500))
    found = backend.keyed.backend.peek("aggregates", "a")
    kept = AGGREGATION.state().value.thaw(found)  # type: ignore[misc]
    assert repr(kept) == repr(backend.contents("aggregates")["a"])
    assert sorted(kept.numbers) == sorted({row[1] for row in rows_of(0, 500) if row[0] == "a"})
    assert all(isinstance(day, date) for day in kept.days)
