"""Columnar state against a dictionary, with folds, freezes and encodings in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import ProtocolError
from mainstay.schema import to_schema
from mainstay.state.accumulating import accumulating
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.backends.heap import lanes, slotted
from mainstay.state.backends.heap.columns import HeapColumns
from mainstay.state.operations import DELETE, PUT, columns_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

SCHEMA = to_schema("k long, v long, s string")
AGGREGATES = {
    "total": Aggregate("sum", "v"),
    "n": Aggregate("count"),
    "least": Aggregate("min", "v"),
    "last": Aggregate("last", "s"),
    "all": Aggregate("collect", "s"),
}
Kept = dict[Any, tuple[Any, ...]]
SEEDS = [pytest.param(seed, marks=pytest.mark.soak if seed >= 10 else ()) for seed in range(60)]


class Modelled:
    """A table and the dictionary that it must be equal to."""

    def __init__(self, ddl: str = "long") -> None:
        self.aggregation = aggregation_of(AGGREGATES, SCHEMA)
        self.info = self.aggregation.state()
        self.key = ValueType.of(ddl)
        self.parts = [accumulating(each) for each in self.aggregation.accumulators]
        self.table = HeapColumns(self.info, StoredKey.of(self.key))
        self.model: Kept = {}
        self.changed: set[Any] = set()

    def fold(self, values: dict[Any, tuple[int | None, str | None]]) -> None:
        """One value and one string for each of some keys."""
        keys = list(values)
        columns = [pa.array(keys, self.key.arrow), *zip(*values.values(), strict=True)]
        arrays = [columns[0], pa.array(columns[1], pa.int64()), pa.array(columns[2], pa.string())]
        batch = pa.record_batch(arrays, names=SCHEMA.names)
        partials = [part.from_arrow(part.first_partials(batch)) for part in self.parts]
        self.table.fold(arrays[0], partials)
        for key, (number, text) in values.items():
            self.model[key] = folded(self.model.get(key, (None, 0, None, None, [])), number, text)
            self.changed.add(key)

    def freeze(self) -> tuple[Any, Kept]:
        """The frozen segment, and what it must come to."""
        changed, self.changed = self.changed, set()
        return self.table.freeze(), {key: self.model[key] for key in changed}

    def entries(self) -> Kept:
        return {key: plain(row) for key, row in self.table.entries()}

    def decoded(self, slices: list[list[pa.Array]]) -> Kept:
        """What the slices of a segment say; a key that comes twice is an error."""
        found: Kept = {}
        for keys, ops, values in slices:
            assert set(ops.to_pylist()) <= {PUT}
            rows = self.info.value.from_array(values)
            for key, row in zip(self.key.from_array(keys), rows, strict=True):
                assert key not in found, f"{key} was written twice"
                found[key] = plain(row)
        return found


def folded(kept: tuple[Any, ...], number: int | None, text: str | None) -> tuple[Any, ...]:
    total, count, least, last, every = kept
    if number is not None:
        total = number if total is None else total + number
        least = number if least is None else min(least, number)
    if text is not None:
        last, every = text, [*every, text]
    return total, count + 1, least, last, every


def plain(row: Any) -> tuple[Any, ...]:
    return tuple(list(field) if isinstance(field, tuple) else field for field in row)


def some_values(random: Random, ddl: str) -> dict[Any, tuple[int | None, str | None]]:
    keys: list[Any] = random.sample([*range(30), 1 << 50, -(1 << 50), None], random.randint(1, 12))
    if ddl == "string":
        keys = [None if key is None else f"k{key}" for key in keys]
    return {
        key: (random.choice([None, random.randint(-9, 9)]), random.choice([None, "a", "b"]))
        for key in keys
    }


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slotted, "SLICE_ROWS", 3)
    monkeypatch.setattr(slotted, "_LOOK_AT", 5)
    monkeypatch.setattr(slotted, "_FIRST_CAPACITY", 2)


@pytest.mark.parametrize("ddl", ["long", "string"])
@pytest.mark.parametrize("seed", SEEDS)
def test_segments_hold_what_was_there_when_they_were_frozen(ddl: str, seed: int) -> None:
    random = Random(seed)
    modelled = Modelled(ddl)
    waiting: deque[tuple[Any, Kept, Iterator[Any], list[Any]]] = deque()
    durable: Kept = {}

    def finish_oldest() -> None:
        parts, expected, slices, seen = waiting.popleft()
        seen.extend(slices)
        assert modelled.decoded(seen) == expected
        # A write that failed is done again, from the same segment.
        assert modelled.decoded(list(modelled.table.encode(parts))) == expected
        durable.update(expected)

    for _ in range(60):
        step = random.choice(["fold", "fold", "freeze", "encode", "encode", "abandon", "finish"])
        if step == "fold":
            modelled.fold(some_values(random, ddl))
        elif step == "freeze":
            parts, expected = modelled.freeze()
            assert bool(parts) == bool(expected)
            if parts:
                waiting.append((parts, expected, modelled.table.encode(parts), []))
        elif step == "encode" and waiting:
            number = random.randrange(len(waiting))
            waiting[number][3].extend([next(waiting[number][2], None)])
            if waiting[number][3][-1] is None:
                waiting[number][3].pop()
        elif step == "abandon" and waiting:
            parts, expected, _, _ = waiting.popleft()
            waiting.appendleft((parts, expected, modelled.table.encode(parts), []))
        elif step == "finish" and waiting:
            finish_oldest()
        assert modelled.entries() == modelled.model
    parts, expected = modelled.freeze()
    if parts:
        waiting.append((parts, expected, modelled.table.encode(parts), []))
    while waiting:
        finish_oldest()
    assert durable == modelled.model
    assert not modelled.table._waiting


@pytest.mark.parametrize("ddl", ["long", "string"])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_restored_is_what_was_stored(ddl: str, seed: int) -> None:
    random = Random(seed)
    stored, restored = Modelled(ddl), Modelled(ddl)
    schema = columns_of(stored.info, stored.key)
    for _ in range(5):
        for _ in range(random.randint(1, 4)):
            stored.fold(some_values(random, ddl))
        for columns in stored.table.encode(stored.table.freeze()):
            restored.table.apply(pa.Table.from_batches([pa.record_batch(columns, schema=schema)]))
        assert restored.entries() == stored.model
    assert restored.table.freeze() == []
    restored.table.mark_all_changed()
    slices = list(restored.table.encode(restored.table.freeze()))
    assert restored.decoded(slices) == stored.model
    for key, row in stored.model.items():
        assert plain(restored.table.read(key)) == row
    assert restored.table.read("nobody" if ddl == "string" else 12345) is None


def test_a_restored_key_goes_on_from_what_was_stored() -> None:
    stored, restored = Modelled(), Modelled()
    stored.fold({1: (5, "a"), 2: (None, None)})
    schema = columns_of(stored.info, stored.key)
    for columns in stored.table.encode(stored.table.freeze()):
        restored.table.apply(pa.Table.from_batches([pa.record_batch(columns, schema=schema)]))
    restored.model = dict(stored.model)
    restored.fold({2: (7, "b"), 1: (1, None), 3: (0, None)})
    assert restored.entries() == restored.model


def test_the_last_of_several_stored_rows_of_a_key_counts() -> None:
    modelled = Modelled()
    schema = columns_of(modelled.info, modelled.key)
    rows = [(1, PUT, (1, 1, 1, "a", ["a"])), (1, PUT, (3, 2, 1, "b", ["a", "b"]))]
    columns = [
        pa.array([row[n] for row in rows], field.type) if n < 2 else _structs(rows, field.type)
        for n, field in enumerate(schema)
    ]
    modelled.table.apply(pa.Table.from_arrays(columns, schema=schema))
    assert modelled.entries() == {1: (3, 2, 1, "b", ["a", "b"])}


def _structs(rows: list[Any], arrow: pa.DataType) -> pa.Array:
    names = [field.name for field in arrow]
    return pa.array([dict(zip(names, row[2], strict=True)) for row in rows], arrow)


def test_a_stored_row_that_is_no_put_is_refused() -> None:
    modelled = Modelled()
    schema = columns_of(modelled.info, modelled.key)
    columns = [pa.array([1]), pa.array([DELETE], pa.int8()), pa.nulls(1, schema.types[2])]
    with pytest.raises(ProtocolError, match="'aggregates'"):
        modelled.table.apply(pa.Table.from_arrays(columns, schema=schema))


def test_freezing_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    modelled = Modelled()
    modelled.fold({key: (key, "a") for key in range(1000)})
    changed = modelled.table._changed

    def refuse(self: Any, slots: Any) -> Any:
        raise AssertionError("values were copied")

    monkeypatch.setattr(lanes.Lane, "get", refuse)
    (frozen,) = modelled.table.freeze()
    assert frozen.pending is changed
    assert np.count_nonzero(frozen.pending) == 1000
