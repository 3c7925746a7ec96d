from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import SnapshotStorageError
from mainstay.runtime.deferred import Late
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.messages import Attempt, Epoch, Figures
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.operators.make import Make
from mainstay.runtime.spec import KeySpec, OperatorSpec
from mainstay.runtime.worker import shared_files
from mainstay.runtime.worker.durability import Durability, UnackedCut
from mainstay.runtime.worker.member import Member
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.snapshot.manifest import SubtaskState
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.kinds import OPERATOR_LIST, VALUE
from mainstay.state.operator import values_in
from mainstay.state.segments import read_chain
from mainstay.state.values import ValueType
from tests.members import keyed, opened

TOTAL = StateInfo("total", VALUE, ValueType.of("long"))
KEY = KeySpec((0,), ValueType.of("string"), ("k",))


def operator_of(uid: str = "count", attempt: int = 1) -> Member:
    spec = OperatorSpec(uid, uid, Make(Operator, ()), states=(TOTAL,), key=KEY)
    return opened(spec, 0, 1, attempt, 128, KeyGroupRange(0, 127))


def put(operator: Member, **totals: int) -> None:
    for operator.row_context.current_key, total in totals.items():
        keyed(operator).backend.handles["total"].update(total)


class Subject:
    """A task's durability over some operators, and what it told."""

    def __init__(self, world: Any, *operators: Member) -> None:
        self.world = world
        self.operators = operators
        self.acknowledged: dict[int, dict[str, SubtaskState]] = {}
        self.figures: dict[int, Figures] = {}
        self.declined: list[tuple[int, str]] = []
        files = SharedFiles(world.ports, Attempt(1), 0)
        self.durability = Durability(world.ports, files, self._acknowledge, self._decline)

    def _acknowledge(self, epoch: Epoch, states: dict[str, SubtaskState], figures: Figures) -> None:
        assert epoch not in self.acknowledged, "an epoch is acknowledged once"
        self.acknowledged[epoch] = states
        self.figures[epoch] = figures

    def _decline(self, epoch: Epoch, reason: str) -> None:
        self.declined.append((epoch, reason))

    def cut(self, epoch: int) -> None:
        """Freeze all operators and hand the cut over; nothing is written yet."""
        cuts = [(operator, operator.freeze(Epoch(epoch))) for operator in self.operators]
        now = self.world.clock.monotonic()
        self.durability.begin(UnackedCut(Epoch(epoch), cuts, 0.5, 0.25, now))

    def convert(self) -> None:
        while self.durability.step():
            continue

    def compact(self, operator: Member, longest: int) -> None:
        """Ask for a compaction, and start what is due."""
        keyed(operator).compact(longest)
        self.durability.maintain([keyed(operator)])

    def stored(self, epoch: int, uid: str = "count") -> dict[str, int]:
        """The state that a restore from the acknowledged chain gives."""
        restored = operator_of(uid, attempt=9)
        chain = self.acknowledged[epoch][uid].chain
        read = restored.read(self.world.storage, RestoredState(chain))
        for _ in keyed(restored).apply(read):
            continue
        return dict(keyed(restored).backend.entries("total"))

    def ids(self, epoch: int, uid: str = "count") -> list[str]:
        return [ref.id for ref in self.acknowledged[epoch][uid].chain]


@pytest.fixture
def count() -> Member:
    return operator_of()


@pytest.fixture
def subject(world: Any, count: Member) -> Subject:
    return Subject(world, count)


def test_a_cut_without_changes_is_acknowledged_at_once(subject: Subject) -> None:
    subject.cut(1)
    assert subject.ids(1) == []
    assert subject.world.background.queue == []


def test_nothing_is_written_before_the_segment_was_converted(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    assert subject.world.background.queue == []
    subject.convert()
    assert len(subject.world.background.queue) == 1
    assert subject.acknowledged == {}


def test_an_epoch_is_acknowledged_when_its_segment_is_durable(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    report = subject.world.background.take().perform()
    assert subject.acknowledged == {}
    report()
    assert subject.ids(1) == ["a1-s0-e1"]
    assert subject.stored(1) == {"a": 1}


@pytest.fixture
def each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments wait for no others, as large ones do not."""
    monkeypatch.setattr(shared_files, "LARGE_BYTES", 0)


@pytest.mark.usefixtures("each_alone")
def test_an_epoch_is_acknowledged_only_when_the_segments_of_all_operators_are_durable(
    world: Any,
) -> None:
    one, two = operator_of("one"), operator_of("two")
    subject = Subject(world, one, two)
    put(one, a=1)
    put(two, b=2)
    subject.cut(1)
    subject.convert()
    first, second = world.background.queue
    second.run()
    assert subject.acknowledged == {}
    first.run()
    assert set(subject.acknowledged[1]) == {"one", "two"}


@pytest.mark.usefixtures("each_alone")
def test_an_epoch_waits_for_the_segments_of_earlier_epochs_too(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    put(count, b=2)
    subject.cut(2)
    subject.convert()
    first, second = subject.world.background.queue
    second.run()
    assert subject.acknowledged == {}
    first.run()
    assert subject.ids(1) == ["a1-s0-e1"]
    assert subject.ids(2) == ["a1-s0-e1", "a1-s0-e2"]
    assert subject.stored(2) == {"a": 1, "b": 2}


def test_a_cut_shows_the_state_at_the_marker_whatever_is_written_after_it(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    put(count, a=2, b=3)
    subject.convert()
    subject.world.background.drain()
    assert subject.stored(1) == {"a": 1}


def test_a_failed_write_declines_the_epoch_and_says_why(subject: Subject, count: Member) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.world.background.take().fail(SnapshotStorageError("no space left"))
    assert subject.acknowledged == {}
    assert subject.declined == [(1, "'count' could not be stored: no space left")]


def test_the_segment_of_a_failed_write_is_written_with_the_next_epoch(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.world.background.take().fail(SnapshotStorageError("no space left"))
    put(count, b=2)
    subject.cut(2)
    subject.convert()
    subject.world.background.drain()
    assert subject.ids(2) == ["a1-s0-e1", "a1-s0-e2"]
    assert subject.stored(2) == {"a": 1, "b": 2}


def test_a_failed_write_declines_every_epoch_that_needs_the_segment(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    put(count, b=2)
    subject.cut(2)
    subject.convert()
    subject.world.background.take().fail(SnapshotStorageError("no space left"))
    subject.world.background.drain()
    assert [epoch for epoch, _ in subject.declined] == [1, 2]
    assert subject.acknowledged == {}
    subject.cut(3)
    subject.convert()
    subject.world.background.drain()
    assert subject.stored(3) == {"a": 1, "b": 2}


def test_a_segment_is_written_once_even_if_two_epochs_wait_for_it(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.cut(2)
    subject.convert()
    assert len(subject.world.background.queue) == 1
    subject.world.background.drain()
    assert subject.ids(1) == subject.ids(2) == ["a1-s0-e1"]
    subject.cut(3)
    subject.convert()
    assert [event[0] for event in subject.world.events] == ["write"]


def test_an_epoch_that_is_aborted_while_it_is_written_is_not_acknowledged(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.durability.abort(Epoch(1))
    subject.world.background.drain()
    assert subject.acknowledged == {}


def test_the_segment_of_an_aborted_epoch_goes_with_the_next_one(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.durability.abort(Epoch(1))
    subject.world.background.drain()
    put(count, b=2)
    subject.cut(2)
    subject.convert()
    subject.world.background.drain()
    assert subject.ids(2) == ["a1-s0-e1", "a1-s0-e2"]
    assert subject.stored(2) == {"a": 1, "b": 2}
    assert [event[0] for event in subject.world.events] == ["write", "write"]


def test_an_abort_before_the_conversion_loses_nothing(subject: Subject, count: Member) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.durability.abort(Epoch(1))
    put(count, b=2)
    subject.cut(2)
    subject.convert()
    subject.world.background.drain()
    assert subject.stored(2) == {"a": 1, "b": 2}


def test_a_write_that_fails_after_its_epoch_was_aborted_declines_nothing(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.durability.abort(Epoch(1))
    subject.world.background.take().fail(SnapshotStorageError("no space left"))
    assert subject.declined == []
    subject.cut(2)
    subject.convert()
    subject.world.background.drain()
    assert subject.stored(2) == {"a": 1}


def test_figures_tell_the_times_and_what_was_written_for_the_epoch(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.world.clock.advance(2.0)
    subject.world.background.drain()
    size = subject.acknowledged[1]["count"].chain[0].file.size_bytes
    assert subject.figures[1] == Figures(0.5, 0.25, 2.0, size)
    subject.cut(2)
    assert subject.figures[2].size_bytes == 0


def test_a_large_segment_is_converted_in_slices(subject: Subject, count: Member) -> None:
    for first in range(0, 100_000, 2000):
        put(count, **{f"key-{n}": n for n in range(first, first + 2000)})
        count.relieve()
    subject.cut(1)
    steps = 0
    while subject.durability.step():
        steps += 1
    assert steps >= 3
    subject.world.background.drain()
    assert subject.stored(1)["key-99999"] == 99999


def test_a_long_chain_is_compacted_beside_the_loop_and_keeps_its_content(
    subject: Subject, count: Member
) -> None:
    for epoch in range(1, 6):
        put(count, **{"a": epoch, f"k{epoch}": epoch})
        subject.cut(epoch)
        subject.convert()
        subject.world.background.drain()
    subject.compact(count, 4)
    assert len(keyed(count).chain.segments) == 5
    subject.world.background.drain()
    subject.cut(6)
    assert len(subject.ids(6)) == 1
    assert subject.stored(6) == {"a": 5, **{f"k{n}": n for n in range(1, 6)}}


def test_what_is_frozen_during_a_compaction_stays_behind_it(
    subject: Subject, count: Member
) -> None:
    for epoch in range(1, 4):
        put(count, a=epoch)
        subject.cut(epoch)
        subject.convert()
        subject.world.background.drain()
    subject.compact(count, 2)
    compaction = subject.world.background.take()
    put(count, a=4)
    subject.cut(4)
    compaction.run()
    subject.convert()
    subject.world.background.drain()
    subject.cut(5)
    assert subject.stored(4) == subject.stored(5) == {"a": 4}
    assert len(subject.ids(5)) == 2


def test_a_failed_compaction_leaves_the_chain_whole_and_is_tried_again(
    subject: Subject, count: Member
) -> None:
    for epoch in range(1, 4):
        put(count, a=epoch)
        subject.cut(epoch)
        subject.convert()
        subject.world.background.drain()
    subject.compact(count, 2)
    subject.world.background.take().fail(SnapshotStorageError("no space left"))
    assert "operator 'count', subtask 0 has not been able to merge its state files" in str(
        count.problem(1.0)
    )
    assert "no space left" in str(count.problem(1.0))
    subject.cut(4)
    assert len(subject.ids(4)) == 3
    subject.compact(count, 2)
    subject.world.background.drain()
    assert count.problem(2.0) is None
    subject.cut(5)
    assert len(subject.ids(5)) == 1
    assert subject.stored(5) == {"a": 3}


def test_columns_of_a_segment_are_those_of_the_declared_type(
    subject: Subject, count: Member
) -> None:
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    subject.world.background.drain()
    (table,) = read_chain(subject.world.storage, subject.acknowledged[1]["count"].chain)
    assert table.table.schema.field("value").type == pa.int64()


# ---------------------------------------------------------------- late parts


UNITS = StateInfo("units", OPERATOR_LIST, ValueType.of("long"), redistribute="split")


class Waiting(Operator):
    """Its cuts have a late part until the test says what is in it."""

    def __init__(self) -> None:
        self.lates: list[Late] = []
        self.units: list[int] = []

    def late(self) -> Late:
        self.lates.append(Late(lambda: {"units": self.units}))
        return self.lates[-1]


@pytest.fixture
def waiting() -> Member:
    spec = OperatorSpec("waiting", "waiting", Make(Waiting, ()), states=(UNITS,))
    return opened(spec, 0, 1, 1, 128, KeyGroupRange(0, 127))


def test_an_epoch_is_acknowledged_with_its_late_part_when_that_is_known(
    world: Any, waiting: Member
) -> None:
    subject = Subject(world, waiting)
    subject.cut(1)
    subject.convert()
    assert subject.acknowledged == {}
    waiting.operator.units = [5, 6]  # type: ignore[attr-defined]
    (late,) = waiting.operator.lates  # type: ignore[attr-defined]
    late.is_known = True
    subject.convert()
    units = subject.acknowledged[1]["waiting"].units["units"]
    assert values_in(UNITS, units) == [5, 6]


def test_a_late_part_that_is_given_up_declines_its_epoch_once(world: Any, waiting: Member) -> None:
    subject = Subject(world, waiting)
    subject.cut(1)
    subject.cut(2)
    first, second = waiting.operator.lates  # type: ignore[attr-defined]
    first.failure = "disk full"
    second.is_known = True
    subject.convert()
    subject.convert()
    assert subject.declined == [(1, "disk full")]
    assert list(subject.acknowledged) == [2]


def test_an_epoch_that_was_aborted_is_not_acknowledged_when_its_late_part_is_known(
    world: Any, waiting: Member
) -> None:
    subject = Subject(world, waiting)
    subject.cut(1)
    subject.durability.abort(Epoch(1))
    (late,) = waiting.operator.lates  # type: ignore[attr-defined]
    late.is_known = True
    subject.convert()
    assert subject.acknowledged == {}


def test_an_epoch_waits_for_segments_and_late_parts(
    world: Any, waiting: Member, count: Member
) -> None:
    subject = Subject(world, count, waiting)
    put(count, a=1)
    subject.cut(1)
    subject.convert()
    (late,) = waiting.operator.lates  # type: ignore[attr-defined]
    late.is_known = True
    subject.convert()
    assert subject.acknowledged == {}
    subject.world.background.drain()
    assert list(subject.acknowledged) == [1]
