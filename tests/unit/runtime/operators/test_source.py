from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import SourceError
from mainstay.runtime.connector import Polled, Source, Split, SplitReader
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.source import QUIET_S, ReadingSplit, SourceOperator
from mainstay.runtime.own_states import SPLITS
from mainstay.runtime.retry import SLOW_S
from mainstay.runtime.row_context import ProcessContext
from mainstay.state.operator import OperatorList

SCHEMA = pa.schema([("n", pa.int64())])


class Counting(Source):
    """Split "a:10" has the rows 0 to 9; a poll gives ``batch_rows`` of them, whatever is asked."""

    schema = SCHEMA

    def __init__(self, batch_rows: int = 8, *, may_block: bool = False) -> None:
        self.batch_rows = batch_rows
        self.may_block = may_block
        self.opened: list[tuple[str, Any]] = []
        self.closed: list[str] = []
        self.fails_at: int | None = None
        self.goes_on = False

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return []

    def read(self, split: Split, offset: Any) -> SplitReader:
        self.opened.append((split.id, offset))
        return CountingReader(self, split, offset or 0)


class CountingReader(SplitReader):
    def __init__(self, source: Counting, split: Split, position: int) -> None:
        self.source = source
        self.split = split
        self.position = position

    def poll(self, max_rows: int) -> Polled:
        if self.position == self.source.fails_at:
            raise OSError("the wire is cut")
        end = min(self.position + self.source.batch_rows, self.split.data)
        batch = pa.record_batch([pa.array(range(self.position, end), pa.int64())], schema=SCHEMA)
        self.position = end
        is_over = end >= self.split.data
        return Polled(batch, end, finished=is_over, goes_on=self.source.goes_on)

    def close(self) -> None:
        self.source.closed.append(self.split.id)


class Scripted(Source):
    """Each poll of a split gives the next thing of its data: so many rows, or None.

    The last thing given ends the split where ``ends`` says so; after it there is nothing.
    """

    schema = SCHEMA

    def __init__(self, *, may_block: bool = False, ends: bool = False) -> None:
        self.may_block = may_block
        self.ends = ends
        self.polls: list[str] = []

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return []

    def read(self, split: Split, offset: Any) -> SplitReader:
        return ScriptedReader(self, split)


class ScriptedReader(SplitReader):
    def __init__(self, source: Scripted, split: Split) -> None:
        self.source = source
        self.split = split
        self.given = 0

    def poll(self, max_rows: int) -> Polled:
        self.source.polls.append(self.split.id)
        script = self.split.data
        rows = script[self.given] if self.given < len(script) else None
        self.given += 1
        batch = None if rows is None else rows_of(range(rows))
        return Polled(batch, self.given, finished=self.source.ends and self.given == len(script))


def rows_of(values: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


class Subject:
    def __init__(self, world: Any, source: Source, units: list[str] | None = None) -> None:
        self.state = OperatorList(SPLITS)
        self.state.update(units or [])
        self.emitted: list[int] = []
        self.failures: list[Exception] = []
        self.world = world
        self.operator = SourceOperator(source)
        self.operator.out = lambda batch: self.emitted.extend(batch.column(0).to_pylist())
        self.operator.open(
            OperatorContext(
                "numbers",
                0,
                1,
                1,
                "lineage",
                world.clock,
                world.background,
                self.failures.append,
                ProcessContext("numbers", 0, 1),
                lists={SPLITS.name: self.state},
            )
        )

    def assign(self, *splits: Split, last: bool = True) -> None:
        self.operator.assign(splits, last=last)

    def snapshot(self) -> list[str]:
        self.operator.before_marker(Epoch(1))
        return self.state.get()

    def read_all(self, max_rows: int = 100) -> list[int]:
        for _ in range(100):
            self.operator.poll(max_rows)
        return self.emitted


TEN = Split("a", 10)


def test_a_split_is_read_from_its_beginning_to_its_end(world: Any) -> None:
    source = Counting(batch_rows=4)
    subject = Subject(world, source)
    subject.assign(TEN)
    assert subject.read_all() == list(range(10))
    assert source.opened == [("a", None)]
    assert source.closed == ["a"]
    assert subject.operator.is_exhausted


def test_a_source_is_not_exhausted_before_the_last_assignment(world: Any) -> None:
    subject = Subject(world, Counting())
    assert not subject.operator.is_exhausted
    subject.assign(TEN, last=False)
    subject.read_all()
    assert not subject.operator.is_exhausted
    subject.assign(last=True)
    assert subject.operator.is_exhausted


def test_several_splits_are_read_in_turn(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=2))
    subject.assign(Split("a", 4), Split("b", 4))
    subject.read_all()
    assert subject.emitted == [0, 1, 0, 1, 2, 3, 2, 3]


def test_no_more_rows_are_emitted_at_a_time_than_asked_for(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=8))
    subject.assign(TEN)
    assert subject.operator.poll(3) == 3
    assert subject.emitted == [0, 1, 2]
    subject.read_all(max_rows=3)
    assert subject.emitted == list(range(10))


@pytest.mark.parametrize("emitted_before", range(10))
@pytest.mark.parametrize("batch_rows_after", [1, 3, 8, 10])
def test_a_restore_in_the_middle_of_a_poll_repeats_and_loses_no_row(
    world: Any, emitted_before: int, batch_rows_after: int
) -> None:
    subject = Subject(world, Counting(batch_rows=8))
    subject.assign(TEN)
    while len(subject.emitted) < emitted_before:
        subject.operator.poll(1)
    units = subject.snapshot()
    restored = Subject(world, Counting(batch_rows_after), units)
    restored.assign(last=True)
    assert restored.read_all(max_rows=1) == list(range(emitted_before, 10))


def test_a_snapshot_while_rows_are_still_being_skipped_counts_them_all(world: Any) -> None:
    first = Subject(world, Counting(batch_rows=8))
    first.assign(TEN)
    first.operator.poll(7)
    second = Subject(world, Counting(batch_rows=3), first.snapshot())
    second.operator.poll(1)
    assert second.emitted in ([], [7])
    third = Subject(world, Counting(batch_rows=8), second.snapshot())
    third.assign(last=True)
    assert second.emitted + third.read_all() == [7, 8, 9]


def test_a_poll_of_which_every_row_is_skipped_is_progress(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=8))
    subject.assign(TEN)
    subject.operator.poll(7)
    restored = Subject(world, Counting(batch_rows=3), subject.snapshot())
    restored.assign(last=True)
    assert restored.operator.poll(100) == 0
    assert restored.operator.poll(100) == 0
    assert restored.operator.poll(100) == 2
    assert restored.emitted == [7, 8]


def test_a_snapshot_before_anything_was_read_restores_the_whole_split(world: Any) -> None:
    subject = Subject(world, Counting())
    subject.assign(TEN)
    restored = Subject(world, Counting(), subject.snapshot())
    restored.assign(last=True)
    assert restored.read_all() == list(range(10))


def test_a_finished_split_leaves_the_state(world: Any) -> None:
    subject = Subject(world, Counting())
    subject.assign(TEN)
    subject.read_all()
    assert subject.snapshot() == []


def test_a_split_that_goes_on_after_its_end_stays_in_the_state_and_is_read_no_more(
    world: Any,
) -> None:
    source = Counting()
    source.goes_on = True
    subject = Subject(world, source)
    subject.assign(TEN)
    assert subject.read_all() == list(range(10))
    assert subject.operator.is_exhausted
    assert source.closed == ["a"]
    assert subject.snapshot() == ['{"id": "a", "data": 10, "offset": 10, "skip": 0}']


def test_the_state_is_the_offset_of_the_last_poll_and_the_rows_emitted_since(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=4))
    subject.assign(TEN)
    subject.operator.poll(4)
    subject.operator.poll(3)
    assert subject.snapshot() == ['{"id": "a", "data": 10, "offset": 4, "skip": 3}']


def test_a_source_that_may_block_is_polled_beside_the_loop(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=4, may_block=True))
    subject.assign(TEN)
    assert subject.operator.poll(100) is None
    assert subject.operator.poll(100) is None
    assert len(world.background.queue) == 1
    world.background.run_one()
    assert subject.operator.poll(100) == 4
    assert subject.emitted == [0, 1, 2, 3]


def test_a_snapshot_during_a_poll_beside_the_loop_does_not_count_its_rows(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=4, may_block=True))
    subject.assign(TEN)
    subject.operator.poll(100)
    polled = world.background.take().perform()
    units = subject.snapshot()
    polled()
    restored = Subject(world, Counting(), units)
    restored.assign(last=True)
    assert restored.read_all() == list(range(10))


def test_one_waiting_split_does_not_hold_up_another(world: Any) -> None:
    subject = Subject(world, Counting(batch_rows=2, may_block=True))
    subject.assign(Split("a", 2), Split("b", 2))
    subject.operator.poll(100)
    subject.operator.poll(100)
    assert len(world.background.queue) == 2
    world.background.queue[1].run()
    assert subject.operator.poll(100) == 2


def test_a_reader_that_fails_is_named_with_its_split_and_offset(world: Any) -> None:
    source = Counting(batch_rows=4)
    source.fails_at = 4
    subject = Subject(world, source)
    subject.assign(TEN)
    subject.operator.poll(100)
    with pytest.raises(SourceError, match=r"'numbers', subtask 0: split 'a' .* offset 4.*wire"):
        subject.operator.poll(100)


def test_a_reader_that_fails_beside_the_loop_fails_the_worker(world: Any) -> None:
    source = Counting(may_block=True)
    source.fails_at = 0
    subject = Subject(world, source)
    subject.assign(TEN)
    subject.operator.poll(100)
    world.background.drain()
    (failure,) = subject.failures
    assert isinstance(failure, SourceError)
    assert "the wire is cut" in str(failure)


def test_a_release_closes_the_readers_of_unfinished_splits(world: Any) -> None:
    source = Counting(batch_rows=4)
    subject = Subject(world, source)
    subject.assign(TEN, Split("b", 10))
    subject.operator.poll(1)
    subject.operator.release()
    assert source.closed == ["a"]


# ---------------------------------------------------------------- splits that have nothing to give


@pytest.mark.parametrize("nothing", [None, 0])
def test_a_split_that_gave_nothing_is_left_alone_until_its_deadline(
    world: Any, nothing: int | None
) -> None:
    source = Scripted()
    subject = Subject(world, source)
    subject.assign(Split("a", [nothing, nothing, 2]))
    for polls in (1, 2):
        assert subject.operator.poll(100) is None
        assert subject.operator.poll(100) is None
        assert source.polls == ["a"] * polls
        due = subject.operator.deadline()
        assert due == world.clock.now + QUIET_S
        world.clock.now = due - QUIET_S / 10
        assert subject.operator.poll(100) is None
        assert source.polls == ["a"] * polls
        world.clock.now = due
    assert subject.operator.poll(100) == 2
    assert source.polls == ["a"] * 3


def test_a_split_that_gave_rows_is_polled_again_at_once(world: Any) -> None:
    source = Scripted()
    subject = Subject(world, source)
    subject.assign(Split("a", [1, 2, 3]))
    assert [subject.operator.poll(100) for _ in range(4)] == [1, 2, 3, None]


class Punctual(Source):
    """A row every ``every_s``, and the reader says so."""

    schema = SCHEMA

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return []

    def read(self, split: Split, offset: Any) -> SplitReader:
        return PunctualReader(self.every_s)


class PunctualReader(SplitReader):
    def __init__(self, every_s: float) -> None:
        self.every_s = every_s

    def poll(self, max_rows: int) -> Polled:
        return Polled(rows_of([7]), 1, ready_in_s=self.every_s)


@pytest.mark.parametrize("every_s", [QUIET_S / 100, QUIET_S * 100])
def test_a_split_whose_reader_knows_is_asked_when_it_said(world: Any, every_s: float) -> None:
    subject = Subject(world, Punctual(every_s))
    subject.assign(Split("a"))
    for count in range(1, 4):
        assert subject.operator.poll(100) == 1
        assert subject.operator.poll(100) is None, "it is not asked before"
        assert subject.operator.deadline() == world.clock.now + every_s
        world.clock.advance(every_s)
        assert len(subject.emitted) == count


def test_splits_that_are_not_begun_wake_nobody(world: Any) -> None:
    source = Scripted(may_block=True)
    source.reads_at_once = 1
    subject = Subject(world, source)
    subject.assign(Split("a", [None]), Split("b", [1]))
    subject.operator.poll(100)
    assert subject.operator.deadline() is None, "the report of the poll under way wakes"


def test_a_quiet_split_does_not_hold_up_another(world: Any) -> None:
    source = Scripted()
    subject = Subject(world, source)
    subject.assign(Split("quiet", []), Split("b", [1, 1, 1]))
    assert [subject.operator.poll(100) for _ in range(3)] == [1, 1, 1]
    assert source.polls == ["quiet", "b", "b", "b"]


def test_the_deadline_is_that_of_the_split_to_be_asked_first(world: Any) -> None:
    subject = Subject(world, Scripted())
    subject.assign(Split("a", []))
    subject.operator.poll(100)
    first = world.clock.now + QUIET_S
    world.clock.advance(QUIET_S / 2)
    subject.assign(Split("b", []))
    subject.operator.poll(100)
    assert subject.operator.deadline() == first
    world.clock.now = first
    subject.operator.poll(100)
    assert subject.operator.deadline() == pytest.approx(first + QUIET_S / 2)


def test_a_poll_beside_the_loop_that_gave_nothing_counts_from_its_report(world: Any) -> None:
    source = Scripted(may_block=True)
    subject = Subject(world, source)
    subject.assign(Split("a", [None, 2]))
    subject.operator.poll(100)
    assert subject.operator.deadline() is None, "while a poll is under way its report wakes"
    world.clock.advance(5.0)
    world.background.run_one()
    assert subject.operator.deadline() == world.clock.now + QUIET_S
    assert subject.operator.poll(100) is None
    assert world.background.queue == []
    world.clock.advance(QUIET_S)
    subject.operator.poll(100)
    world.background.run_one()
    assert subject.operator.poll(100) == 2


@pytest.mark.parametrize("nothing", [None, 0])
def test_a_split_that_ends_with_nothing_goes_at_once(world: Any, nothing: int | None) -> None:
    subject = Subject(world, Scripted(ends=True))
    subject.assign(Split("a", [nothing]))
    assert subject.operator.poll(100) == 0
    assert subject.operator.is_exhausted
    assert subject.operator.deadline() is None


def test_a_source_with_rows_at_hand_or_without_splits_has_no_deadline(world: Any) -> None:
    subject = Subject(world, Scripted(ends=True))
    assert subject.operator.deadline() is None
    subject.assign(Split("a", [3]))
    assert subject.operator.poll(1) == 1
    assert subject.operator.deadline() is None
    subject.read_all()
    assert subject.emitted == [0, 1, 2]
    assert subject.operator.deadline() is None


def test_a_poll_of_which_every_row_is_skipped_is_not_quiet() -> None:
    reading = ReadingSplit(TEN, offset=0, to_skip=3)
    reading.take_poll(Polled(rows_of([0, 1, 2]), 3), 3, now=50.0)
    assert reading.wants_poll(50.0)
    reading.take_poll(Polled(rows_of([]), 3), 3, now=50.0)
    assert not reading.wants_poll(50.0)
    assert reading.wants_poll(50.0 + QUIET_S)


def test_a_quiet_split_keeps_the_offset_that_its_poll_gave(world: Any) -> None:
    subject = Subject(world, Scripted())
    subject.assign(Split("a", [2, None]))
    subject.operator.poll(100)
    subject.operator.poll(100)
    assert subject.snapshot() == ['{"id": "a", "data": [2, null], "offset": 2, "skip": 0}']


class Waiting(Scripted):
    """Its reader waits for what it is told to."""

    reader: ScriptedReader

    def read(self, split: Split, offset: Any) -> SplitReader:
        self.reader = ScriptedReader(self, split)
        self.reader.waits_for = "the tide"
        return self.reader


def test_a_reader_that_waits_for_long_is_a_problem_until_it_goes_on(world: Any) -> None:
    source = Waiting()
    subject = Subject(world, source)
    subject.assign(Split("a", [None, None, 1]))
    subject.operator.poll(100)
    now = world.clock.monotonic()
    assert subject.operator.problem(now + SLOW_S - 1) is None
    problem = subject.operator.problem(now + SLOW_S)
    assert str(problem) == (
        "source 'numbers', subtask 0 has not been able to read split 'a' for 10 s: the tide"
    )
    source.reader.waits_for = None
    assert subject.operator.problem(now + SLOW_S) is None


def test_each_wait_of_a_reader_is_counted_from_its_own_beginning(world: Any) -> None:
    source = Waiting()
    subject = Subject(world, source)
    subject.assign(Split("a", [None, None, None]))
    subject.operator.poll(100)
    source.reader.waits_for = None
    world.clock.advance(SLOW_S)
    subject.operator.poll(100)
    source.reader.waits_for = "the tide again"
    world.clock.advance(SLOW_S)
    subject.operator.poll(100)
    assert subject.operator.problem(world.clock.monotonic()) is None
    assert subject.operator.problem(world.clock.monotonic() + SLOW_S) is not None


# ---------------------------------------------------------------- what readers remember


class Remembering(Source):
    """Its reader remembers what it has given, in a dictionary that it goes on with."""

    schema = SCHEMA

    def __init__(self, *, may_block: bool = False) -> None:
        self.may_block = may_block

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return []

    def read(self, split: Split, offset: Any) -> SplitReader:
        return RememberingReader(offset or {"at": 0, "seen": {}})


class RememberingReader(SplitReader):
    """Gives each number of a poll with how often its like was given before."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known

    def poll(self, max_rows: int) -> Polled:
        known, given = self.known, []
        for number in range(known["at"], known["at"] + 4):
            name = str(number % 3)
            known["seen"][name] = known["seen"].get(name, 0) + 1
            given.append(known["seen"][name])
        known["at"] += 4
        return Polled(rows_of(given), known, finished=known["at"] >= 20)


@pytest.mark.parametrize("may_block", [False, True])
@pytest.mark.parametrize("taken", range(1, 9))
def test_what_a_reader_remembers_is_what_it_knew_at_the_offset(
    world: Any, taken: int, may_block: bool
) -> None:
    whole = Subject(world, Remembering())
    whole.assign(Split("a"))
    subject = Subject(world, Remembering(may_block=may_block))
    subject.assign(Split("a"))
    while len(subject.emitted) < taken:
        subject.operator.poll(1)
        world.background.drain()
    restored = Subject(world, Remembering(), subject.snapshot())
    restored.assign()
    restored.read_all()
    assert subject.emitted + restored.emitted == whole.read_all()


class Untold(Remembering):
    def __init__(self, *, may_block: bool, offset: Any) -> None:
        super().__init__(may_block=may_block)
        self.offset = offset

    def read(self, split: Split, offset: Any) -> SplitReader:
        return UntoldReader(self.offset)


class UntoldReader(SplitReader):
    def __init__(self, offset: Any) -> None:
        self.offset = offset

    def poll(self, max_rows: int) -> Polled:
        return Polled(rows_of([1]), self.offset)


def test_an_offset_whose_keys_would_be_texts_after_a_restore_is_refused(world: Any) -> None:
    subject = Subject(world, Untold(may_block=False, offset=[{"by": {1: 2}}]))
    subject.assign(Split("a"))
    with pytest.raises(SourceError, match="the key 1 of a dictionary is no text"):
        subject.operator.poll(10)


@pytest.mark.parametrize("may_block", [False, True])
def test_an_offset_that_is_no_json_is_refused_with_the_split(world: Any, may_block: bool) -> None:
    subject = Subject(world, Untold(may_block=may_block, offset={"seen": {1, 2}}))
    subject.assign(Split("a"))
    try:
        subject.operator.poll(10)
        world.background.drain()
    except SourceError as error:
        subject.failures.append(error)
    (refused,) = subject.failures
    assert (
        "the reader of split 'a' gave the offset {'seen': {1, 2}}, which is no JSON value"
        in str(refused)
    )
