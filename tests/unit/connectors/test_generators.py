"""Generated rows: every one of them once, the same again, and at the rate that was asked for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Generate, Sequence, Source, Split
from mainstay.connectors.generators import MIN_WAIT_S, PacedReader
from mainstay.errors import GraphError, SourceError
from mainstay.testing import run


def squares(first: int, count: int) -> pa.RecordBatch:
    ids = range(first, first + count)
    return pa.RecordBatch.from_pydict({"id": list(ids), "square": [n * n for n in ids]})


def polled(
    source: Source, split: Split, offset: Any = None, max_rows: int = 1000, most: int = 10**6
) -> list[int]:
    """The ids of a split from an offset on, at least ``most`` of them where it does not end."""
    reader, ids, finished = source.read(split, offset), [], False
    while not finished and len(ids) < most:
        poll = reader.poll(max_rows)
        finished = poll.finished
        if poll.batch is not None:
            assert poll.batch.schema == source.schema
            assert 1 <= poll.batch.num_rows <= max_rows
            ids += poll.batch.column(0).to_pylist()
        else:
            assert finished
    return ids


SOURCES = {
    "Sequence": lambda **options: Sequence(**options),
    "Generate": lambda **options: Generate("id long, square long", squares, **options),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("splits", [1, 2, 3, 7])
@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 1), (0, 100), (-5, 16), (7, 30), (7, 7)])
def test_the_splits_hold_every_number_once(name: str, splits: int, start: int, end: int) -> None:
    source = SOURCES[name](start=start, end=end, splits=splits, batch_rows=4)
    assert source.bounded
    planned = source.plan(frozenset())
    assert len(planned) == splits
    ids = [n for split in planned for n in polled(source, split, max_rows=3)]
    assert sorted(ids) == list(range(start, end))


@pytest.mark.parametrize("name", SOURCES)
def test_a_split_read_again_from_any_offset_gives_the_same_rows(name: str) -> None:
    source = SOURCES[name](end=50, batch_rows=8)
    for split in source.plan(frozenset()):
        whole = polled(source, split)
        for offset in range(len(whole) + 1):
            assert polled(source, split, offset, max_rows=3) == whole[offset:]


@pytest.mark.parametrize("name", SOURCES)
def test_without_an_end_the_numbers_go_on_and_the_splits_are_planned_once(name: str) -> None:
    source = SOURCES[name](splits=2, batch_rows=10)
    assert not source.bounded
    planned = source.plan(frozenset())
    ids = [n for split in planned for n in polled(source, split, most=1000)[:1000]]
    assert sorted(ids) == list(range(2000))
    assert source.plan(frozenset(split.id for split in planned)) == []


def test_a_split_keeps_its_share_when_the_source_is_given_other_numbers() -> None:
    before, after = Sequence(end=30, splits=2), Sequence(start=9, end=40, splits=5)
    split = before.plan(frozenset())[1]
    assert polled(after, split, 3) == list(range(7, 30, 2))


def test_a_higher_end_brings_the_numbers_from_the_old_one_on() -> None:
    first = Sequence(end=30, splits=2).plan(frozenset())
    seen = frozenset(split.id for split in first)
    assert Sequence(end=30, splits=3).plan(seen) == []
    assert Sequence(end=20, splits=3).plan(seen) == []
    longer = Sequence(end=40, splits=3)
    second = longer.plan(seen)
    assert sorted(n for split in second for n in polled(longer, split)) == list(range(30, 40))
    seen |= {split.id for split in second}
    assert longer.plan(seen) == []
    third = Sequence(end=45, splits=1).plan(seen)
    assert [n for split in third for n in polled(Sequence(end=45), split)] == list(range(40, 45))


def test_an_end_that_is_left_out_later_is_where_the_numbers_go_on_for_ever() -> None:
    seen = frozenset(split.id for split in Sequence(end=30, splits=2).plan(frozenset()))
    endless = Sequence(splits=1)
    (split,) = endless.plan(seen)
    assert polled(endless, split, most=5)[:5] == [30, 31, 32, 33, 34]
    assert endless.plan(seen | {split.id}) == []


def test_a_split_of_a_version_that_kept_no_ends_reads_to_the_end_that_is_given() -> None:
    split = Split("split-0-of-1", {"number": 0, "splits": 1, "run": 1, "start": 0})
    assert polled(Sequence(end=7, splits=1), split, 4) == [4, 5, 6]
    assert Sequence(end=7, splits=1).plan(frozenset({split.id})) == []


def test_a_split_that_is_past_a_lowered_end_is_finished() -> None:
    split = Sequence(end=30, splits=1).plan(frozenset())[0]
    assert polled(Sequence(end=10, splits=1), split, 20) == []


def test_the_numbers_of_a_sequence_are_dealt_out_one_by_one() -> None:
    source = Sequence(end=7, splits=3)
    assert [polled(source, split) for split in source.plan(frozenset())] == [
        [0, 3, 6],
        [1, 4],
        [2, 5],
    ]


def test_a_function_is_asked_for_numbers_in_a_row_within_a_batch() -> None:
    calls: list[tuple[int, int]] = []

    def recorded(first: int, count: int) -> pa.RecordBatch:
        calls.append((first, count))
        return squares(first, count)

    source = Generate("id long, square long", recorded, end=20, splits=2, batch_rows=8)
    for split in source.plan(frozenset()):
        polled(source, split, max_rows=5)
    assert calls == [(0, 5), (5, 3), (16, 4), (8, 5), (13, 3)]


@pytest.mark.parametrize("wrong", [lambda first, count: squares(first, count + 1), lambda *_: None])
def test_a_function_that_gives_something_else_is_named(wrong: Any) -> None:
    source = Generate("id long, square long", wrong, end=10, splits=1)
    with pytest.raises(SourceError, match="asked for 10 rows from id 0 on"):
        polled(source, source.plan(frozenset())[0])


# ---------------------------------------------------------------- pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def paced(clock: Clock, *, offset: int = 0, rows: int | None = None) -> PacedReader:
    def generate(position: int, count: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"id": list(range(position, position + count))})

    return PacedReader(generate, offset, rows, 10.0, 8, clock)


def ids_of(reader: PacedReader) -> list[int]:
    batch = reader.poll(1000).batch
    return [] if batch is None else batch.column(0).to_pylist()


def test_as_many_rows_come_as_are_due() -> None:
    clock = Clock()
    reader = paced(clock)
    assert ids_of(reader) == []
    clock.now += 0.25
    assert ids_of(reader) == [0, 1]
    assert ids_of(reader) == []
    clock.now += 0.0625
    assert ids_of(reader) == [2]


def test_a_reader_that_was_held_up_catches_up_in_batches() -> None:
    clock = Clock()
    reader = paced(clock)
    ids_of(reader)
    clock.now += 1.0
    assert [ids_of(reader) for _ in range(3)] == [list(range(8)), [8, 9], []]


def test_a_paced_reader_says_when_its_next_row_is_due() -> None:
    clock = Clock()
    reader = paced(clock)
    assert reader.poll(1000).ready_in_s == pytest.approx(0.1)
    clock.now += 0.25
    assert reader.poll(1000).ready_in_s == pytest.approx(0.05)
    clock.now += 0.0625
    assert reader.poll(1).ready_in_s == pytest.approx(0.0875)
    clock.now += 1.0
    assert reader.poll(1).ready_in_s == 0.0, "what is late is not waited for"


def test_every_row_comes_when_it_was_said_to_come() -> None:
    clock = Clock()
    reader = paced(clock)
    times: list[float] = []
    for _ in range(100):
        polled = reader.poll(1000)
        times += [clock.now] * (0 if polled.batch is None else polled.batch.num_rows)
        assert polled.ready_in_s is not None
        clock.now += polled.ready_in_s
    assert len(times) >= 50, "rounding costs a poll now and then, not more"
    for n, time in enumerate(times, start=1):
        assert time == pytest.approx(100.0 + n / 10, abs=MIN_WAIT_S * 1.01)


def test_rows_that_follow_each_other_quickly_are_asked_for_together() -> None:
    source = Sequence(splits=1, rows_per_second=100_000)
    (split,) = source.plan(frozenset())
    wait_s = source.read(split, None).poll(1).ready_in_s
    assert wait_s == MIN_WAIT_S


def test_rows_without_a_pace_are_not_waited_for() -> None:
    source = Sequence(end=10)
    assert source.read(source.plan(frozenset())[0], None).poll(1).ready_in_s is None


@pytest.mark.parametrize("name", SOURCES)
def test_generated_rows_are_planned_once(name: str) -> None:
    assert SOURCES[name]().replan_s is None


def test_a_restored_reader_keeps_the_pace_from_where_it_begins() -> None:
    clock = Clock()
    reader = paced(clock, offset=500)
    assert ids_of(reader) == []
    clock.now += 0.25
    assert ids_of(reader) == [500, 501]


def test_a_bounded_split_ends_with_its_last_row_however_much_is_due() -> None:
    clock = Clock()
    reader = paced(clock, rows=3)
    assert not reader.poll(1000).finished
    clock.now += 60
    poll = reader.poll(1000)
    assert poll.batch is not None
    assert (poll.batch.num_rows, poll.offset, poll.finished) == (3, 3, True)


def test_the_splits_share_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    source = Sequence(splits=4, rows_per_second=40)
    readers = [source.read(split, None) for split in source.plan(frozenset())]
    for reader in readers:
        assert isinstance(reader, PacedReader)
        monkeypatch.setattr(reader, "_clock", clock)
        assert ids_of(reader) == []
    clock.now += 0.5
    assert [ids_of(reader) for reader in readers] == [
        list(range(first, 20, 4)) for first in range(4)
    ]


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"start": 1.5}, r"start=1\.5\) must be a whole number\."),
        ({"start": 5, "end": 4}, r"end=4\) must be a whole number of at least 5"),
        ({"splits": 0}, r"splits=0\)"),
        ({"batch_rows": True}, r"batch_rows=True\)"),
        ({"rows_per_second": 0}, r"rows_per_second=0\) must be above 0"),
    ],
)
@pytest.mark.parametrize("name", SOURCES)
def test_wrong_arguments_are_graph_errors(name: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(GraphError, match=rf"{name}\({problem}"):
        SOURCES[name](**options)


def test_what_generates_must_be_a_function() -> None:
    with pytest.raises(GraphError, match="a function of"):
        Generate("id long", 5)  # type: ignore[arg-type]


# ---------------------------------------------------------------- in a job


@pytest.mark.parametrize("name", SOURCES)
def test_a_job_over_generated_rows_gives_each_once_in_spite_of_crashes(name: str) -> None:
    def build(env: ms.Environment) -> None:
        source = SOURCES[name](end=1500, splits=3, batch_rows=7)
        env.source(source, uid="numbers").key_by("id").sink(ms.connectors.Memory(), uid="out")

    restored = 0
    for seed in range(6):
        result = run(build, parallelism=2, seed=seed, crashes=3)
        assert sorted(row[0] for row in result.output("out")) == list(range(1500))
        restored += sum(record.restored_from is not None for record in result.attempts)
    assert restored > 0, "no seed crashed after an epoch: the test shows nothing"
