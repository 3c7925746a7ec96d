from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import SinkError
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.sink import HANDLES, MAX_BEHIND, SinkOperator
from mainstay.runtime.retry import MAX_RETRIES
from mainstay.state.operator import OperatorList


class Target(Sink):
    """Remembers every commit; fails as often as it is told."""

    def __init__(self) -> None:
        self.commits: list[list[str]] = []
        self.failures = 0
        self.opened: list[SinkContext] = []
        self.writer = Writer()

    def open(self, context: SinkContext) -> SinkWriter:
        self.opened.append(context)
        return self.writer

    def commit(self, handles: Sequence[bytes]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("the target is away")
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


def test_a_target_that_stays_away_fails_the_worker_in_the_end(
    subject: Subject, target: Target
) -> None:
    target.failures = 1000
    subject.write(1)
    subject.cut(1)
    subject.complete(1)
    subject.world.background.drain()
    for _ in range(MAX_RETRIES):
        assert subject.failures == []
        subject.wait_for_retry()
        subject.world.background.drain()
    (failure,) = subject.failures
    assert isinstance(failure, SinkError)
    assert "sink 'out', subtask 3 cannot be committed: OSError: the target is away" in str(failure)


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


@pytest.mark.parametrize(("action", "verb"), [("write", "written"), ("cut", "prepared")])
def test_a_writer_that_fails_is_named(
    subject: Subject, target: Target, action: str, verb: str
) -> None:
    target.writer.error = OSError("disk full")
    with pytest.raises(SinkError, match=f"sink 'out', subtask 3 cannot be {verb}: OSError: disk"):
        getattr(subject, action)(1)


def test_closing_closes_the_writer(subject: Subject, target: Target) -> None:
    subject.operator.close()
    assert target.writer.closed
