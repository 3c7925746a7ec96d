from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import MainstayError, OutcomeUnknownError, SinkError
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter
from mainstay.runtime.deferred import Late
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.backlog import MAX_WAITING
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.sink import MAX_BEHIND, SinkOperator
from mainstay.runtime.own_states import HANDLES
from mainstay.runtime.retry import LONGEST_S, SLOW_S
from mainstay.runtime.row_context import ProcessContext
from mainstay.state.declaration import OperatorListState
from mainstay.state.declared_states import declarations_of
from mainstay.state.operator import OperatorList


class Target(Sink):
    """Remembers every commit; fails as often as it is told."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.failures = 0
        self.error: Exception = OSError("the target is away")
        self.opened: list[SinkContext] = []
        self.writer = Writer()

    def open(self, context: SinkContext) -> SinkWriter:
        self.opened.append(context)
        return self.writer

    def commit(self, handles: Sequence[bytes]) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error
        self.commits.append([handle.decode() for handle in handles])


class Writer(SinkWriter):
    def __init__(self) -> None:
        self.rows: list[int] = []
        self.closed = False
        self.error: Exception | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self.error:
            raise self.error
        self.rows.extend(batch.column(0).to_pylist())

    def prepare(self, epoch: int) -> bytes | None:
        if self.error:
            raise self.error
        rows, self.rows = self.rows, []
        return f"e{epoch}:{rows}".encode() if rows else None

    def close(self) -> None:
        self.closed = True


class Subject:
    def __init__(self, world: Any, target: Target, units: Sequence[tuple[int, bytes]] = ()) -> None:
        self.world = world
        self.target = target
        self.state = OperatorList(HANDLES)
        self.state.update(units)
        self.failures: list[Exception] = []
        self.operator = SinkOperator(target)
        self.operator.open(
            OperatorContext(
                "out",
                3,
                4,
                7,
                "lineage",
                world.clock,
                world.background,
                self.failures.append,
                ProcessContext("out", 3, 4),
                lists={HANDLES.name: self.state},
            )
        )

    def write(self, *values: int) -> None:
        self.operator.process(pa.record_batch([pa.array(values, pa.int64())], names=["n"]), 0)

    def cut(self, epoch: int) -> list[tuple[int, bytes]]:
        """A snapshot; returns the handles that it keeps."""
        self.operator.before_marker(Epoch(epoch))
        return [(unit.epoch, unit.handle) for unit in self.state.get()]

    def complete(self, epoch: int) -> None:
        self.operator.on_complete(Epoch(epoch))

    def complete_all(self, epochs: int) -> None:
        """Write, cut and complete epochs 1 to so many; no commit is reported."""
        for epoch in range(1, epochs + 1):
            self.write(epoch)
            self.cut(epoch)
            self.complete(epoch)

    def wait_for_retry(self) -> None:
        due = self.operator.deadline()
        assert due is not None
        assert not self.operator.tick(due - 0.01)
        assert self.operator.tick(due)


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def subject(world: Any, target: Target) -> Subject:
    return Subject(world, target)


def test_the_writer_learns_who_is_writing(subject: Subject, target: Target) -> None:
    assert target.opened == [SinkContext("out", subtask=3, attempt=7, lineage="lineage")]


def test_nothing_is_committed_before_its_epoch_is_complete(
    subject: Subject, target: Target
) -> None:
    subject.write(1, 2)
    assert subject.cut(1) == [(1, b"e1:[1, 2]")]
    subject.world.background.drain()
    assert target.commits == []


def test_a_complete_epoch_is_committed_beside_the_loop_and_then_confirmed(
    subject: Subject, target: Target
) -> None:
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    assert target.commits == []
    report = subject.world.background.take().perform()
    assert target.commits == [["e1:[1]"]]
    assert subject.operator.confirmed == 0
    report()
    assert subject.operator.confirmed == 1


def test_an_epoch_without_rows_is_confirmed_without_a_commit(
    subject: Subject, target: Target
) -> None:
    assert subject.cut(1) == []
    subject.complete(1)
    assert subject.operator.confirmed == 1
    assert subject.world.background.queue == []


def test_rows_written_after_the_marker_belong_to_the_next_handle(
    subject: Subject, target: Target
) -> None:
    subject.write(1)
    subject.cut(1)
    subject.write(2)
    subject.complete(1)
    subject.world.background.drain()
    assert target.commits == [["e1:[1]"]]
    assert subject.cut(2) == [(2, b"e2:[2]")]


def test_a_handle_stays_in_every_later_snapshot_until_it_is_confirmed(subject: Subject) -> None:
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.write(2)
    assert subject.cut(2) == [(1, b"e1:[1]"), (2, b"e2:[2]")]
    subject.world.background.drain()
    assert subject.cut(3) == [(2, b"e2:[2]")]


def test_a_missed_notification_is_caught_up_by_the_next(subject: Subject, target: Target) -> None:
    subject.write(1)
    subject.cut(1)
    subject.write(2)
    subject.cut(2)
    subject.complete(2)
    subject.world.background.drain()
    assert target.commits == [["e1:[1]", "e2:[2]"]]
    assert subject.operator.confirmed == 2


def test_handles_of_a_failed_epoch_are_committed_with_the_next(
    subject: Subject, target: Target
) -> None:
    subject.write(1)
    subject.cut(1)
    # Epoch 1 is aborted: the sink is not even told.
    subject.write(2)
    assert subject.cut(2) == [(1, b"e1:[1]"), (2, b"e2:[2]")]
    subject.complete(2)
    subject.world.background.drain()
    assert target.commits == [["e1:[1]", "e2:[2]"]]


def test_a_completion_leaves_handles_of_later_epochs_alone(
    subject: Subject, target: Target
) -> None:
    subject.write(1)
    subject.cut(1)
    subject.write(2)
    subject.cut(2)
    subject.complete(1)
    subject.world.background.drain()
    assert target.commits == [["e1:[1]"]]
    assert subject.cut(3) == [(2, b"e2:[2]")]


def test_a_late_notification_of_an_older_epoch_commits_nothing_twice(
    subject: Subject, target: Target
) -> None:
    subject.write(1)
    subject.cut(1)
    subject.write(2)
    subject.cut(2)
    subject.complete(2)
    subject.world.background.drain()
    subject.complete(1)
    subject.world.background.drain()
    assert target.commits == [["e1:[1]", "e2:[2]"]]
    assert subject.operator.confirmed == 2


def test_there_is_one_commit_at_a_time_and_the_next_follows_by_itself(
    subject: Subject, target: Target
) -> None:
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.write(2)
    subject.cut(2)
    subject.complete(2)
    assert len(subject.world.background.queue) == 1
    subject.world.background.drain()
    assert target.commits == [["e1:[1]"], ["e2:[2]"]]
    assert subject.operator.confirmed == 2


def test_a_failed_commit_is_tried_again_after_a_while(subject: Subject, target: Target) -> None:
    target.failures = 2
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.world.background.drain()
    assert subject.cut(2) == [(1, b"e1:[1]")]
    subject.wait_for_retry()
    subject.world.background.drain()
    assert target.commits == []
    subject.wait_for_retry()
    subject.world.background.drain()
    assert target.commits == [["e1:[1]"]]
    assert subject.operator.confirmed == 1
    assert subject.operator.deadline() is None


def test_an_epoch_that_completes_while_a_retry_waits_goes_with_it(
    subject: Subject, target: Target
) -> None:
    target.failures = 1
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.world.background.drain()
    subject.write(2)
    subject.cut(2)
    subject.complete(2)
    assert subject.world.background.queue == []
    subject.wait_for_retry()
    subject.world.background.drain()
    assert target.commits == [["e1:[1]", "e2:[2]"]]
    assert subject.operator.confirmed == 2


def test_a_target_that_stays_away_is_tried_for_ever_and_can_be_seen(
    subject: Subject, target: Target
) -> None:
    target.failures = 100
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    began = subject.world.clock.now
    for _ in range(100):
        subject.world.background.drain()
        problem = subject.operator.problem(began + 43)
        assert str(problem) == (
            "sink 'out', subtask 3 has not confirmed epoch 1 for 43 s: OSError: the target is away"
        )
        due = subject.operator.deadline()
        assert due is not None
        assert due - subject.world.clock.now <= LONGEST_S
        subject.world.clock.now = due
        subject.wait_for_retry()
    subject.world.background.drain()
    assert subject.failures == []
    assert target.commits == [["e1:[1]"]]
    assert subject.operator.problem(subject.world.clock.now) is None


def test_a_target_that_does_not_answer_at_all_can_be_seen_after_a_while(subject: Subject) -> None:
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    now = subject.world.clock.now
    assert subject.operator.problem(now + SLOW_S - 1) is None
    problem = subject.operator.problem(now + SLOW_S)
    assert str(problem) == "sink 'out', subtask 3 has not confirmed epoch 1 for 10 s"
    subject.world.background.drain()
    assert subject.operator.problem(now + SLOW_S) is None


@pytest.mark.parametrize("error", [SinkError("the table was dropped"), MainstayError("a limit")])
def test_an_error_that_no_waiting_can_heal_fails_the_worker_at_once(
    subject: Subject, target: Target, error: Exception
) -> None:
    target.failures, target.error = 1, error
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.world.background.drain()
    assert subject.failures == [error]


def test_a_storage_that_fails_may_heal(subject: Subject, target: Target) -> None:
    target.failures, target.error = 1, OutcomeUnknownError("timed out")
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.world.background.drain()
    assert subject.failures == []
    subject.wait_for_retry()
    subject.world.background.drain()
    assert target.commits == [["e1:[1]"]]


def test_a_sink_is_behind_when_too_many_complete_epochs_wait_for_their_commit(
    subject: Subject,
) -> None:
    subject.complete_all(MAX_BEHIND)
    assert not subject.operator.is_behind
    subject.write(99)
    subject.cut(99)
    assert not subject.operator.is_behind, "epoch 99 is not complete"
    subject.complete(99)
    assert subject.operator.is_behind


def test_epochs_that_are_only_prepared_do_not_put_a_sink_behind(subject: Subject) -> None:
    for epoch in range(1, 3 * MAX_BEHIND):
        subject.write(epoch)
        subject.cut(epoch)
    assert not subject.operator.is_behind


def test_a_sink_has_caught_up_when_its_commits_are_confirmed(
    subject: Subject, target: Target
) -> None:
    subject.complete_all(MAX_BEHIND + 2)
    assert subject.operator.is_behind
    subject.world.background.run_one()
    assert target.commits == [["e1:[1]"]]
    assert subject.operator.is_behind, "one more than allowed is left"
    subject.world.background.drain()
    assert not subject.operator.is_behind
    assert subject.operator.confirmed == MAX_BEHIND + 2


def test_a_sink_stays_behind_while_its_target_is_away(subject: Subject, target: Target) -> None:
    target.failures = 2
    subject.complete_all(MAX_BEHIND + 1)
    for _ in range(2):
        subject.world.background.drain()
        assert subject.operator.is_behind
        subject.wait_for_retry()
    subject.world.background.drain()
    assert not subject.operator.is_behind


def test_handles_found_in_a_restored_snapshot_are_committed_at_once(
    world: Any, target: Target
) -> None:
    subject = Subject(world, target, [(4, b"x"), (5, b"y")])
    world.background.drain()
    assert target.commits == [["x", "y"]]
    assert subject.operator.confirmed == 5
    assert subject.cut(6) == []


def test_a_recommit_that_fails_is_tried_again_and_kept_meanwhile(
    world: Any, target: Target
) -> None:
    target.failures = 1
    subject = Subject(world, target, [(4, b"x")])
    world.background.drain()
    assert subject.cut(6) == [(4, b"x")]
    subject.wait_for_retry()
    world.background.drain()
    assert target.commits == [["x"]]
    assert subject.cut(7) == []


def test_rows_written_while_a_restored_handle_is_committed_wait_for_their_own_epoch(
    world: Any, target: Target
) -> None:
    subject = Subject(world, target, [(4, b"x")])
    subject.write(1)
    assert subject.cut(6) == [(4, b"x"), (6, b"e6:[1]")]
    world.background.drain()
    assert target.commits == [["x"]]
    subject.complete(6)
    world.background.drain()
    assert target.commits == [["x"], ["e6:[1]"]]


@pytest.mark.parametrize(
    "number", [errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM]
)
def test_a_path_that_cannot_be_used_as_it_is_ends_the_attempt(
    subject: Subject, target: Target, number: int
) -> None:
    target.failures, target.error = 1, OSError(number, os.strerror(number), "/data/x")
    subject.complete_all(1)
    subject.world.background.drain()
    (failure,) = subject.failures
    assert "sink 'out', subtask 3 cannot be committed" in str(failure)
    assert "/data/x" in str(failure)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "no space left", "/data/x"),
        OSError(errno.EROFS, "read-only", "/data/x"),
        OSError(errno.ENOENT, "not there", "/data/x"),
        OSError(errno.EPERM, "a firewall says no"),
    ],
)
def test_what_may_heal_does_not_end_the_attempt(
    subject: Subject, target: Target, error: OSError
) -> None:
    target.failures, target.error = 1, error
    subject.complete_all(1)
    subject.world.background.drain()
    assert subject.failures == []
    subject.wait_for_retry()
    subject.world.background.drain()
    assert target.commits == [["e1:[1]"]]


@pytest.mark.parametrize(("action", "verb"), [("write", "written"), ("cut", "prepared")])
def test_a_writer_that_fails_is_named(
    subject: Subject, target: Target, action: str, verb: str
) -> None:
    target.writer.error = OSError("disk full")
    with pytest.raises(SinkError, match=f"sink 'out', subtask 3 cannot be {verb}: OSError: disk"):
        getattr(subject, action)(1)


def test_a_release_closes_the_writer(subject: Subject, target: Target) -> None:
    subject.operator.release()
    assert target.writer.closed


# ---------------------------------------------------------------- what a writer puts off


class PuttingOff(Writer):
    """Writes and prepares beside the loop; fails as often as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[Exception] = []

    def write(self, batch: pa.RecordBatch) -> Any:
        return self._later(lambda: super(PuttingOff, self).write(batch))

    def prepare(self, epoch: int) -> Any:
        return self._later(lambda: super(PuttingOff, self).prepare(epoch))

    def _later(self, work: Any) -> Any:
        def run() -> Any:
            if self.failures:
                raise self.failures.pop()
            return work()

        return run


@pytest.fixture
def writer(target: Target) -> PuttingOff:
    target.writer = writer = PuttingOff()
    return writer


@pytest.fixture
def slow(writer: PuttingOff, world: Any, target: Target) -> Subject:
    return Subject(world, target)


def units_of(late: Late) -> list[tuple[int, bytes]]:
    return [(epoch, handle) for epoch, handle in late.units()["handles"]]


def cut_late(subject: Subject, epoch: int) -> Late:
    subject.cut(epoch)
    late = subject.operator.late()
    assert late is not None
    return late


def test_a_cut_waits_for_everything_that_was_put_off_before_it_and_nothing_after_it(
    slow: Subject,
) -> None:
    slow.write(1)
    late = cut_late(slow, 1)
    slow.write(2)
    assert len(slow.world.background.queue) == 1, "one at a time"
    slow.world.background.run_one()
    assert not late.is_known
    slow.world.background.run_one()
    assert late.is_known
    assert units_of(late) == [(1, b"e1:[1]")]
    slow.world.background.drain()
    assert slow.operator.late() is None


def test_a_handle_that_is_given_at_once_still_waits_for_writes_that_were_put_off(
    slow: Subject, writer: PuttingOff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "prepare", lambda epoch: b"at once")
    slow.write(1)
    late = cut_late(slow, 1)
    assert not late.is_known
    slow.world.background.drain()
    assert late.is_known
    assert units_of(late) == [(1, b"at once")]


def test_cuts_in_flight_know_their_own_handles_and_those_before_them(slow: Subject) -> None:
    lates = []
    for epoch in (1, 2, 3):
        slow.write(epoch)
        lates.append(cut_late(slow, epoch))
    slow.world.background.drain()
    assert [units_of(late) for late in lates] == [
        [(1, b"e1:[1]")],
        [(1, b"e1:[1]"), (2, b"e2:[2]")],
        [(1, b"e1:[1]"), (2, b"e2:[2]"), (3, b"e3:[3]")],
    ]


def test_a_preparation_that_comes_to_nothing_leaves_no_handle(
    slow: Subject, target: Target
) -> None:
    late = cut_late(slow, 1)
    slow.world.background.drain()
    assert units_of(late) == []
    slow.complete(1)
    assert slow.operator.confirmed == 1
    assert target.commits == []


def test_a_failure_gives_up_the_cuts_that_wait_and_the_next_one_takes_it_along(
    slow: Subject, writer: PuttingOff, target: Target
) -> None:
    slow.write(1)
    slow.world.background.drain()
    writer.failures = [OSError("disk full")]
    first = cut_late(slow, 1)
    slow.world.background.run_one()
    assert first.failure == "sink 'out', subtask 3 cannot be written: OSError: disk full"
    assert slow.world.background.queue == []
    assert slow.failures == []
    slow.write(2)
    second = cut_late(slow, 2)
    slow.world.background.drain()
    assert second.is_known
    assert units_of(second) == [(1, b"e1:[1]"), (2, b"e2:[2]")]
    slow.complete(2)
    slow.world.background.drain()
    assert target.commits == [["e1:[1]", "e2:[2]"]]


def test_what_failed_is_tried_again_after_a_while_even_if_no_epoch_comes(
    slow: Subject, writer: PuttingOff
) -> None:
    writer.failures = [OSError("disk full")]
    slow.write(1)
    slow.world.background.drain()
    assert str(slow.operator.problem(slow.world.clock.now)) == (
        "sink 'out', subtask 3 has not written its rows for 0 s: OSError: disk full"
    )
    slow.wait_for_retry()
    slow.world.background.drain()
    assert writer.rows == [1]
    assert slow.operator.problem(slow.world.clock.now) is None
    assert slow.operator.deadline() is None


def test_a_sink_is_behind_while_too_much_is_put_off(slow: Subject) -> None:
    for number in range(MAX_WAITING):
        slow.write(number)
    assert not slow.operator.is_behind
    slow.write(99)
    assert slow.operator.is_behind
    slow.world.background.run_one()
    assert not slow.operator.is_behind


def test_what_was_put_off_and_can_never_be_done_fails_the_worker(
    slow: Subject, writer: PuttingOff
) -> None:
    error = SinkError("no such type")
    writer.failures = [error]
    slow.write(1)
    slow.world.background.drain()
    assert slow.failures == [error]


# ---------------------------------------------------------------- states of its own


class Tallying(Target):
    """Counts rows in state of its own: in its writer, or where it must not."""

    tally = OperatorListState("long")

    def __init__(self, *, late: bool = False) -> None:
        super().__init__()
        self.writer = TallyingWriter(self, late)


class TallyingWriter(Writer):
    def __init__(self, sink: Tallying, late: bool) -> None:
        super().__init__()
        self.sink = sink
        self.late = late

    def write(self, batch: pa.RecordBatch) -> Any:
        def work() -> None:
            self.sink.tally.update([sum(self.sink.tally.get()) + batch.num_rows])

        return work if self.late else work()


def tallied(world: Any, target: Tallying, before: Sequence[int] = ()) -> tuple[Any, OperatorList]:
    info = declarations_of(target)[0]
    kept, failures = OperatorList(info), list[Exception]()
    kept.update(before)
    operator = SinkOperator(target)
    operator.open(
        OperatorContext(
            "out",
            3,
            4,
            7,
            "lineage",
            world.clock,
            world.background,
            failures.append,
            ProcessContext("out", 3, 4),
            lists={HANDLES.name: OperatorList(HANDLES), info.name: kept},
        )
    )
    operator.process(pa.record_batch([pa.array([1, 2, 3])], names=["n"]), 0)
    world.background.drain()
    return failures, kept


def test_a_writer_goes_on_with_the_state_of_its_sink(world: Any) -> None:
    failures, kept = tallied(world, Tallying(), before=[4, 5])
    assert kept.copy_units() == [12]
    assert failures == []


def test_what_a_writer_defers_may_not_use_the_state(world: Any) -> None:
    failures, kept = tallied(world, Tallying(late=True), before=[4, 5])
    assert kept.copy_units() == [4, 5]
    assert str(failures[0]).startswith(
        "state 'tally' of sink 'out' was used in a call that runs in the background"
    )
