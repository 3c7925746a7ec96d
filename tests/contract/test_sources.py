"""The contract of a source: stable splits, offsets that survive JSON, and exactly the rest.

One suite over every source there is (``sources.py``). What is read again from an offset is what
was not read before it, wherever it stands: that is what exactly-once rests on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from mainstay.connectors import Polled, Source, Split, SplitReader
from mainstay.schema import batch_to_rows, row_class
from tests.contract.sources import EXAMPLES, SERVICES, Example, Row

PATIENCE_S = 180.0
"""A table of PostgreSQL waits for transactions of other tests on the same server."""
LONGEST_PAUSE_S = 0.05


def _params() -> Iterator[Any]:
    yield from EXAMPLES
    for name, (fixture, _) in SERVICES.items():
        group = {"broker": "kafka", "server": "postgres"}[fixture]
        yield pytest.param(name, marks=[pytest.mark.services, pytest.mark.xdist_group(group)])


@pytest.fixture(params=_params())
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Example:
    if request.param in EXAMPLES:
        return EXAMPLES[request.param](tmp_path)
    fixture, build = SERVICES[request.param]
    return build(request.getfixturevalue(fixture))


def planned(source: Source) -> list[Split]:
    """All splits there are. Unbounded sources may need several plans to know of them."""
    splits: dict[str, Split] = {}
    quiet = 0
    while quiet < 3:
        new = [split for split in source.plan(frozenset(splits)) if split.id not in splits]
        quiet = 0 if new else quiet + 1
        splits |= {split.id: split for split in new}
    return list(splits.values())


def polls(reader: SplitReader, max_rows: int, at_most: int | None = None) -> Iterator[Polled]:
    """What a reader gives to its end, or until there are so many rows."""
    taken = 0
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        polled = reader.poll(max_rows)
        taken += 0 if polled.batch is None else polled.batch.num_rows
        yield polled
        if polled.finished or (at_most is not None and taken >= at_most):
            return
        if polled.batch is None:
            wait_s = LONGEST_PAUSE_S if polled.ready_in_s is None else polled.ready_in_s
            threading.Event().wait(min(wait_s, LONGEST_PAUSE_S))
    raise AssertionError(f"there is no end after {PATIENCE_S} s and {taken} rows")


def rows_of(polled: Polled) -> list[Row]:
    if polled.batch is None:
        return []
    return [tuple(row) for row in batch_to_rows(polled.batch, row_class(polled.batch.schema))]


def read(
    source: Source, split: Split, offset: Any = None, *, max_rows: int = 4, most: int | None = None
) -> list[Row]:
    reader = source.read(split, offset)
    try:
        if most is not None and most <= 0:
            return []
        return [row for polled in polls(reader, max_rows, most) for row in rows_of(polled)][:most]
    finally:
        reader.close()


def stored(value: Any) -> Any:
    """A value as it comes out of a snapshot."""
    return json.loads(json.dumps(value))


def elsewhere(source: Source) -> Source:
    """A source as a worker gets it."""
    copy: Source = cloudpickle.loads(cloudpickle.dumps(source))
    return copy


# ---------------------------------------------------------------- splits


def test_the_splits_together_hold_every_row_once(example: Example) -> None:
    source = example.make()
    splits, most = planned(source), example.per_split
    found = [row for split in splits for row in read(source, split, most=most)]
    assert sorted(found) == sorted(example.rows)


def test_a_split_has_the_same_id_whenever_it_is_planned(example: Example) -> None:
    source = example.make()
    first = [(split.id, split.mark) for split in planned(source)]
    for program in (source, example.make(), elsewhere(source)):
        assert [(split.id, split.mark) for split in planned(program)] == first
    assert len(dict(first)) == len(first)


def test_a_split_survives_a_snapshot(example: Example) -> None:
    source = example.make()
    for split in planned(source):
        copy = Split(stored(split.id), stored(split.data), stored(split.mark))
        assert copy == split
        most = example.per_split
        assert read(source, copy, most=most) == read(source, split, most=most)


def test_a_split_that_was_planned_is_not_planned_again(example: Example) -> None:
    source = example.make()
    splits = {split.id: split for split in planned(source)}
    for program in (source, example.make(), elsewhere(source)):
        for _ in range(3):
            for split in program.plan(frozenset(splits)):
                # A bounded source may name it again, for its mark alone.
                assert program.bounded
                assert split.mark == splits[split.id].mark


def test_what_is_forgotten_is_not_planned_again(example: Example) -> None:
    source = example.make()
    seen = frozenset(split.id for split in planned(source))
    forgotten = frozenset(source.forget(seen))
    assert forgotten <= seen
    if not source.bounded:
        assert {split.id for split in source.plan(seen - forgotten)} == set()


# ---------------------------------------------------------------- offsets


@pytest.mark.parametrize("max_rows", [1, 3, 1000])
def test_a_reader_that_starts_at_any_offset_gives_exactly_the_rest(
    example: Example, max_rows: int
) -> None:
    source = example.make()
    other, most = elsewhere(source), example.per_split
    for split in planned(source):
        reader = source.read(split, None)
        passed = list(polls(reader, max_rows, most))
        reader.close()
        found = [row for polled in passed for row in rows_of(polled)]
        done = 0
        for polled in passed:
            done += len(rows_of(polled))
            left = None if most is None else len(found) - done
            rest = read(other, split, stored(polled.offset), max_rows=max_rows + 1, most=left)
            assert rest == found[done:], f"from {polled.offset!r} of {split.id!r} on"


def test_an_offset_survives_a_snapshot(example: Example) -> None:
    source = example.make()
    for split in planned(source):
        reader = source.read(split, None)
        for polled in polls(reader, 2, example.per_split):
            assert stored(polled.offset) == polled.offset
        reader.close()


def test_two_readers_of_a_split_do_not_disturb_each_other(example: Example) -> None:
    source, most = example.make(), example.per_split
    for split in planned(source):
        expected = read(source, split, max_rows=3, most=most)
        first, second = (source.read(split, None) for _ in range(2))
        together = zip_longest(polls(first, 3, most), polls(second, 3, most))
        for found in map(list, zip(*together, strict=True)):
            rows = [row for polled in found if polled is not None for row in rows_of(polled)]
            assert rows[:most] == expected
        first.close()
        second.close()


# ---------------------------------------------------------------- polls


@pytest.mark.parametrize("max_rows", [1, 2, 5])
def test_a_poll_gives_no_more_rows_than_it_is_asked_for(example: Example, max_rows: int) -> None:
    source = example.make()
    for split in planned(source):
        reader = source.read(split, None)
        for polled in polls(reader, max_rows, example.per_split):
            assert len(rows_of(polled)) <= max_rows
        reader.close()


def test_every_batch_is_of_exactly_the_schema(example: Example) -> None:
    source = example.make()
    for split in planned(source):
        reader = source.read(split, None)
        for polled in polls(reader, 4, example.per_split):
            if polled.batch is not None:
                assert polled.batch.schema.equals(source.schema, check_metadata=True)
        reader.close()


def test_a_reader_can_be_closed_at_any_time_and_again(example: Example) -> None:
    source = example.make()
    for split in planned(source):
        for taken in (0, 1, 2):
            reader = source.read(split, None)
            for _, _ in zip(range(taken), polls(reader, 3, example.per_split), strict=False):
                pass
            reader.close()
            reader.close()
