"""One worker of a job of two; the other worker and the coordinator are the test."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import DamagedFileError, ProtocolError, UserFunctionError
from mainstay.runtime.connector import Polled, Source, Split, SplitReader
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.messages import (
    AbortEpoch,
    Acknowledge,
    Answered,
    Ask,
    AssignSplits,
    Attempt,
    ChannelId,
    Committed,
    Credit,
    Data,
    Decline,
    Ended,
    EndOfInput,
    Epoch,
    EpochComplete,
    Marker,
    Metrics,
    Ready,
    Release,
    Trigger,
)
from mainstay.runtime.operators.sink import MAX_BEHIND
from mainstay.runtime.operators.source import QUIET_S
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.schema import to_schema
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import range_of
from mainstay.state.operator import values_in

ATTEMPT = Attempt(1)
SCHEMA = "k string, n long"
Start = Callable[..., Any]


class Total(ms.KeyedProcess):
    total = ms.ReducingState("long", operator.add)
    closed: list[str] = []  # noqa: RUF012 - shared by all copies on purpose

    def process(self, row: Any, ctx: Any) -> Any:
        if row.n < 0:
            raise ValueError("negative")
        self.total.add(row.n)
        yield ctx.key, self.total.get()

    def close(self) -> None:
        self.closed.append("total")


class Quiet(Source):
    """Has one split and never a row."""

    schema = to_schema(SCHEMA)
    bounded = False

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return []

    def read(self, split: Split, offset: Any) -> SplitReader:
        return QuietReader()


class QuietReader(SplitReader):
    def poll(self, max_rows: int) -> Polled:
        return Polled(None, 0)


def own_keys(worker: int, count: int) -> list[str]:
    """Keys whose group belongs to a worker of two."""
    names = [f"key-{n}" for n in range(200)]
    groups = key_groups([pa.array(names)], 128)
    owned = range_of(worker, 2, 128)
    return [name for name, group in zip(names, groups, strict=True) if group in owned][:count]


MINE = own_keys(0, 4)
THEIRS = own_keys(1, 4)
ROWS = [(MINE[0], 1), (MINE[1], 2), (THEIRS[0], 5), (MINE[0], 10)]


class LocalMemory(Memory):
    """Committed by the worker, not by the coordinator."""

    is_global = False


@pytest.fixture
def sink() -> Memory:
    return LocalMemory()


@pytest.fixture
def job(sink: Memory) -> JobSpec:
    env = ms.Environment(parallelism=2)
    totals = env.source(Rows(SCHEMA, ROWS), uid="rows").key_by("k")
    totals.process(Total(), "k string, total long", uid="totals").sink(sink, uid="out")
    return env.plan()


def channel(job: JobSpec, sender: int, receiver: int) -> ChannelId:
    (edge,) = next(task for task in job.tasks if task.is_source).outputs
    return next(id for id, to in edge.outgoing(sender) if to == receiver)


def batch(*rows: tuple[str, int]) -> pa.RecordBatch:
    keys, values = zip(*rows, strict=True)
    return pa.record_batch([pa.array(keys), pa.array(values, pa.int64())], names=["k", "n"])


def data(channel: ChannelId, sequence: int, element: Any, attempt: Attempt = ATTEMPT) -> Data:
    """An element on its way, at the size it has here."""
    size_bytes = element.nbytes if isinstance(element, pa.RecordBatch) else 0
    return Data(attempt, channel, sequence, element, size_bytes)


class Peer:
    """What the other worker sends to worker 0."""

    def __init__(self, run: Any, job: JobSpec) -> None:
        self.run = run
        self.channel = channel(job, sender=1, receiver=0)
        self.sequence = 0

    def send(self, *elements: Any) -> None:
        for element in elements:
            self.run.receive(data(self.channel, self.sequence, element))
            self.sequence += 1


def assign(run: Any, rows: int = len(ROWS)) -> None:
    split = Split(f"rows-0-{rows}", [0, rows])
    run.receive(AssignSplits(ATTEMPT, "rows", 0, (split,), True))


def acknowledged(world: Any, epoch: int) -> dict[str, Any]:
    return {m.task: m.states for m in world.told(Acknowledge) if m.epoch == epoch}


def restored_from(world: Any, epoch: int) -> dict[tuple[str, int], RestoredState]:
    return {
        (uid, state.subtask): RestoredState(state.chain, state.units)
        for states in acknowledged(world, epoch).values()
        for uid, state in states.items()
    }


def handles(states: dict[str, Any], job: JobSpec) -> list[Any]:
    info = next(o for _, o in job.operators() if o.uid == "out").states[0]
    return values_in(info, states["out"].units["handles"])


# ---------------------------------------------------------------- beginning


def test_a_worker_without_state_is_ready_at_once(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    start_worker(world, job, number=1)
    assert world.told(Ready) == [Ready(ATTEMPT, 1)]


def test_rows_go_to_the_owner_of_their_key_here_or_on_the_other_worker(
    world: Any, job: JobSpec, start_worker: Start, sink: Memory
) -> None:
    run = start_worker(world, job)
    assign(run)
    run.settle()
    (sent,) = [m for m in world.sent(Data, to=1) if isinstance(m.element, pa.RecordBatch)]
    assert sent.channel == channel(job, sender=0, receiver=1)
    assert sent.element.column(0).to_pylist() == [THEIRS[0]]
    Peer(run, job).send(Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    run.receive(EpochComplete(ATTEMPT, Epoch(1)))
    run.settle()
    assert sorted(sink.rows()) == sorted([(MINE[0], 1), (MINE[1], 2), (MINE[0], 11)])


# ---------------------------------------------------------------- epochs


def test_a_trigger_is_answered_by_the_source_at_once_and_by_the_rest_when_aligned(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    peer = Peer(run, job)
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    assert set(acknowledged(world, 1)) == {"rows"}
    peer.send(Marker(Epoch(1)))
    run.settle()
    assert set(acknowledged(world, 1)) == {"rows", "totals"}


def test_rows_behind_the_others_marker_are_not_in_the_epoch(
    world: Any, job: JobSpec, start_worker: Start, new_world: Any
) -> None:
    run = start_worker(world, job)
    peer = Peer(run, job)
    peer.send(batch((MINE[0], 1)), Marker(Epoch(1)), batch((MINE[0], 100)))
    run.settle()
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    again = new_world()
    again.storage._files.update(world.storage._files)
    restored = start_worker(again, job, attempt=1, restored=restored_from(world, 1))
    restored.settle()
    totals = restored.worker.task("totals").members[0].keyed.backend
    assert dict(totals.entries("total")) == {MINE[0]: 1}


def test_a_marker_is_sent_to_the_other_worker_behind_the_rows_before_it(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    run.receive(AssignSplits(ATTEMPT, "rows", 0, (Split("rows-0-3", [0, 3]),), False))
    run.worker.step()
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    elements = [message.element for message in world.sent(Data, to=1)]
    assert isinstance(elements[0], pa.RecordBatch)
    assert elements[1] == Marker(Epoch(1))


def test_an_acknowledgement_waits_for_the_write(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    peer = Peer(run, job)
    peer.send(batch((MINE[0], 1)), Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle(background=False)
    assert set(acknowledged(world, 1)) == {"rows"}
    run.settle()
    assert set(acknowledged(world, 1)) == {"rows", "totals"}
    (ref,) = acknowledged(world, 1)["totals"]["totals"].chain
    assert world.storage.read(ref.file.path)


def test_a_failed_write_declines_and_the_next_epoch_holds_everything(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    peer = Peer(run, job)
    world.storage.fail("write", "state/totals")
    peer.send(batch((MINE[0], 1)), Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    (declined,) = world.told(Decline)
    assert (declined.epoch, declined.task) == (1, "totals")
    assert set(acknowledged(world, 1)) == {"rows"}
    run.receive(AbortEpoch(ATTEMPT, Epoch(1)))
    peer.send(batch((MINE[1], 2)), Marker(Epoch(2)))
    run.receive(Trigger(ATTEMPT, Epoch(2)))
    run.settle()
    chain = acknowledged(world, 2)["totals"]["totals"].chain
    assert [ref.id for ref in chain] == ["a1-s0-e1", "a1-s0-e2"]


def test_an_abort_reaches_tasks_that_wait_for_the_marker(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job, tuning=Tuning(window_bytes=1))
    peer = Peer(run, job)
    peer.send(Marker(Epoch(1)), batch((MINE[0], 1)))
    run.settle()
    assert world.sent(Credit) == []
    run.receive(AbortEpoch(ATTEMPT, Epoch(1)))
    run.settle()
    assert [message.channel for message in world.sent(Credit, to=1)] == [peer.channel]


def test_a_source_answers_triggers_after_its_end(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    assign(run)
    run.settle()
    assert Ended(ATTEMPT, "rows", 0) in world.told(Ended)
    run.receive(Trigger(ATTEMPT, Epoch(5)))
    run.settle()
    assert set(acknowledged(world, 5)) == {"rows"}
    assert world.sent(Data, to=1)[-1].element == Marker(Epoch(5))


def test_the_end_of_input_flows_through_to_the_sink(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    peer = Peer(run, job)
    assign(run)
    run.settle()
    assert world.sent(Data, to=1)[-1].element == EndOfInput()
    assert [message.task for message in world.told(Ended)] == ["rows"]
    peer.send(EndOfInput())
    run.settle()
    assert [message.task for message in world.told(Ended)] == ["rows", "totals"]


def test_a_sink_commits_on_completion_and_says_so(
    world: Any, job: JobSpec, start_worker: Start, sink: Memory
) -> None:
    run = start_worker(world, job)
    peer = Peer(run, job)
    peer.send(batch((MINE[0], 1)), Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    assert len(handles(acknowledged(world, 1)["totals"], job)) == 1
    assert sink.rows() == []
    assert world.told(Committed) == []
    run.receive(EpochComplete(ATTEMPT, Epoch(1)))
    run.settle()
    assert sink.rows() == [(MINE[0], 1)]
    assert world.told(Committed) == [Committed(ATTEMPT, Epoch(1), "totals", 0)]


def test_a_task_whose_sink_is_behind_takes_nothing_until_it_has_caught_up(
    world: Any, job: JobSpec, start_worker: Start, sink: Memory
) -> None:
    run = start_worker(world, job, tuning=Tuning(window_bytes=1))
    peer = Peer(run, job)
    for epoch in range(1, MAX_BEHIND + 2):
        peer.send(batch((MINE[0], 1)), Marker(Epoch(epoch)))
        run.receive(Trigger(ATTEMPT, Epoch(epoch)))
        run.settle(background=False)
        run.receive(EpochComplete(ATTEMPT, Epoch(epoch)))
    assert len(world.sent(Credit, to=1)) == MAX_BEHIND + 1, "all so far was taken"
    peer.send(batch((MINE[0], 100)))
    run.settle(background=False)
    assert len(world.sent(Credit, to=1)) == MAX_BEHIND + 1
    run.settle()
    assert len(world.sent(Credit, to=1)) == MAX_BEHIND + 2
    assert sink.rows() == [(MINE[0], n + 1) for n in range(MAX_BEHIND + 1)]
    assert world.told(Committed)[-1].epoch == MAX_BEHIND + 1


# ---------------------------------------------------------------- restoring


def test_a_restored_worker_goes_on_where_the_epoch_was_cut(
    world: Any, new_world: Any, job: JobSpec, start_worker: Start, sink: Memory
) -> None:
    tuning = Tuning(first_slice_rows=2, max_slice_rows=2, batch_rows=1)
    run = start_worker(world, job, tuning=tuning)
    assign(run)
    run.worker.step()
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    Peer(run, job).send(Marker(Epoch(1)))
    run.settle()

    again = new_world()
    again.storage._files.update(world.storage._files)
    restored = start_worker(again, job, attempt=2, restored=restored_from(world, 1))
    second = Attempt(2)
    restored.settle()
    restored.receive(AssignSplits(second, "rows", 0, (), True))
    restored.settle()
    backend = restored.worker.task("totals").members[0].keyed.backend
    assert dict(backend.entries("total")) == {MINE[0]: 11, MINE[1]: 2}
    assert Ready(second, 0) in again.told(Ready)


def test_a_restored_worker_is_ready_only_when_its_state_is_read(
    world: Any, new_world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    Peer(run, job).send(batch((MINE[0], 1)), Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    again = new_world()
    again.storage._files.update(world.storage._files)
    restored = start_worker(again, job, attempt=2, restored=restored_from(world, 1))
    assert again.told(Ready) == []
    restored.settle()
    assert again.told(Ready) == [Ready(Attempt(2), 0)]


def test_a_missing_state_file_ends_the_worker_with_its_name(
    world: Any, new_world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    Peer(run, job).send(batch((MINE[0], 1)), Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    again = new_world()
    restored = start_worker(again, job, attempt=2, restored=restored_from(world, 1))
    with pytest.raises(DamagedFileError, match="state/totals/a0001"):
        restored.settle()
    assert again.told(Ready) == []


def test_handles_of_a_restored_epoch_are_committed_again(
    world: Any, new_world: Any, job: JobSpec, start_worker: Start, sink: Memory
) -> None:
    run = start_worker(world, job)
    Peer(run, job).send(batch((MINE[0], 1)), Marker(Epoch(1)))
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    again = new_world()
    again.storage._files.update(world.storage._files)
    start_worker(again, job, attempt=2, restored=restored_from(world, 1)).settle()
    assert sink.rows() == [(MINE[0], 1)]


# ---------------------------------------------------------------- fencing and failures


@pytest.mark.parametrize("attempt", [0, 2])
def test_messages_of_other_attempts_are_refused(
    world: Any, job: JobSpec, start_worker: Start, attempt: int
) -> None:
    run = start_worker(world, job)
    other = Attempt(attempt)
    world.forget()
    run.receive(data(channel(job, 1, 0), 5, batch((MINE[0], 1)), other))
    run.receive(Trigger(other, Epoch(1)))
    run.receive(AssignSplits(other, "rows", 0, (Split("rows-0-4", [0, 4]),), True))
    run.receive(EpochComplete(other, Epoch(1)))
    run.receive(Release(other))
    run.settle()
    assert [event for event in world.events if not isinstance(event[-1], Metrics)] == []
    assert not run.worker.released


def test_credit_of_another_attempt_is_refused(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job, tuning=Tuning(window_bytes=1, batch_rows=1))
    outgoing = channel(job, 0, 1)
    sending = run.worker.router.senders[outgoing]
    run.receive(Credit(Attempt(2), outgoing, 100))
    assert sending.credit_bytes == 1
    run.receive(Credit(ATTEMPT, outgoing, 100))
    assert sending.credit_bytes == 101


def test_a_gap_in_a_channel_is_a_broken_rule(world: Any, job: JobSpec, start_worker: Start) -> None:
    run = start_worker(world, job)
    run.receive(data(channel(job, 1, 0), 0, batch((MINE[0], 1))))
    with pytest.raises(ProtocolError, match="expected element 1 and got 2"):
        run.receive(data(channel(job, 1, 0), 2, batch((MINE[0], 3))))


def test_an_error_of_user_code_names_the_operator(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    Peer(run, job).send(batch((MINE[0], -1)))
    with pytest.raises(UserFunctionError, match=r"operator 'totals', subtask 0: .*negative"):
        run.settle()


def test_without_credit_a_source_stops_and_goes_on_when_it_is_granted(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    tuning = Tuning(window_bytes=1, batch_rows=1, first_slice_rows=1, max_slice_rows=1)
    theirs = [(THEIRS[0], n) for n in range(6)]
    env = ms.Environment(parallelism=2)
    keyed = env.source(Rows(SCHEMA, theirs), uid="rows").key_by("k")
    keyed.process(Total(), "k string, total long", uid="totals").sink(Memory(), uid="out")
    job = env.plan()
    run = start_worker(world, job, tuning=tuning)
    assign(run, 6)
    run.settle()
    sent = world.sent(Data, to=1)
    assert len(sent) == 1
    run.receive(Credit(ATTEMPT, sent[0].channel, sent[0].size_bytes))
    run.settle()
    assert len(world.sent(Data, to=1)) == 2


def test_what_a_sender_paid_is_granted_back_whatever_arrived(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job, tuning=Tuning(window_bytes=1))
    incoming = channel(job, sender=1, receiver=0)
    run.receive(Data(ATTEMPT, incoming, 0, batch((MINE[0], 1)), 12_345))
    run.settle()
    assert world.sent(Credit, to=1) == [Credit(ATTEMPT, incoming, 12_345)]


def test_what_is_sent_says_what_was_paid_for_it(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job, tuning=Tuning(window_bytes=1000, least_window_bytes=1000))
    assign(run)
    run.settle()
    rows, end = world.sent(Data, to=1)
    assert rows.size_bytes == rows.element.nbytes > 0
    assert run.worker.router.senders[rows.channel].credit_bytes == 1000 - rows.size_bytes
    assert (end.element, end.size_bytes) == (EndOfInput(), 0)


def test_a_worker_whose_source_is_quiet_rests_until_it_is_to_be_asked_again(
    world: Any, start_worker: Start
) -> None:
    env = ms.Environment(parallelism=1)
    env.source(Quiet(), uid="rows").sink(Memory(), uid="out")
    run = start_worker(world, env.plan())
    run.receive(AssignSplits(ATTEMPT, "rows", 0, (Split("a"),), False))
    run.settle()
    assert run.worker.deadline() == world.clock.now + QUIET_S


def test_a_marker_passes_a_channel_that_has_no_credit_but_keeps_its_place(
    world: Any, start_worker: Start
) -> None:
    tuning = Tuning(window_bytes=1, batch_rows=1, first_slice_rows=1, max_slice_rows=1)
    env = ms.Environment(parallelism=2)
    keyed = env.source(Rows(SCHEMA, [(THEIRS[0], n) for n in range(6)]), uid="rows").key_by("k")
    keyed.process(Total(), "k string, total long", uid="totals").sink(Memory(), uid="out")
    run = start_worker(world, env.plan(), tuning=tuning)
    assign(run, 6)
    run.settle()
    run.receive(Trigger(ATTEMPT, Epoch(1)))
    run.settle()
    (sent,) = world.sent(Data, to=1)
    run.receive(Credit(ATTEMPT, sent.channel, sent.size_bytes))
    elements = [message.element for message in world.sent(Data, to=1)]
    assert isinstance(elements[1], pa.RecordBatch)
    assert elements[2] == Marker(Epoch(1))
    run.settle()
    assert set(acknowledged(world, 1)) == {"rows"}


def test_a_release_closes_the_functions(world: Any, job: JobSpec, start_worker: Start) -> None:
    Total.closed.clear()
    run = start_worker(world, job)
    run.receive(Release(ATTEMPT))
    assert run.worker.released
    assert Total.closed == ["total"]


# ---------------------------------------------------------------- what is heard between tasks


def heard_once(run: Any, message: Any) -> Callable[[], bool]:
    """Brings one message, before the last task is stepped."""
    tasks = len(run.worker.tasks)
    calls = iter(range(tasks))

    def hear() -> bool:
        if next(calls) != tasks - 1:
            return False
        run.receive(message)
        return True

    return hear


def test_a_question_is_answered_before_the_next_task_is_stepped(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    run.settle()
    run.worker.step(heard_once(run, Ask(ATTEMPT, 1, "totals", ("total",), (MINE[0],), 0)))
    (answer,) = world.told(Answered)
    assert answer.number == 1


def test_a_worker_that_has_heard_something_between_tasks_does_not_rest(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    run.settle()
    assert not run.worker.step()
    assert run.worker.step(heard_once(run, AbortEpoch(ATTEMPT, Epoch(7))))


def test_a_worker_that_is_released_between_tasks_steps_no_other(
    world: Any, job: JobSpec, start_worker: Start
) -> None:
    run = start_worker(world, job)
    run.settle()
    assert not run.worker.step(heard_once(run, Release(ATTEMPT)))
    assert run.worker.released
