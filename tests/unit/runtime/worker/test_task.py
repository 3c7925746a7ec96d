"""A task with made-up members and outputs: what it calls, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from mainstay.runtime.messages import (
    Acknowledge,
    Attempt,
    ChannelId,
    Decline,
    Ended,
    EndOfInput,
    Epoch,
    Marker,
)
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.spec import OperatorSpec, TaskSpec
from mainstay.runtime.worker.alignment import Aligner, Tracker
from mainstay.runtime.worker.gate import Gate, InputChannel
from mainstay.runtime.worker.inputs.gated import GateInput
from mainstay.runtime.worker.member import Cut
from mainstay.runtime.worker.operator_chain import OperatorChain
from mainstay.runtime.worker.pace import Pace
from mainstay.runtime.worker.reports import TaskReports
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.runtime.worker.slices import SliceSize
from mainstay.runtime.worker.task import Task
from mainstay.snapshot.manifest import SubtaskState

Batch = Callable[..., pa.RecordBatch]


class Recorder:
    """An operator, its state and an output: everything they are asked goes into one list."""

    on_port_end = Operator.on_port_end

    uid = "op"
    keyed = None
    max_slice_rows = None
    is_behind = False
    confirmed = None
    timer_counts = None
    expiry: Any = None
    on_clock = Operator.on_clock
    may_be_cut = False

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.operator = self
        self.has_room = True
        self.slice_rows = float("inf")
        self.cost_s: Callable[[int], None] = lambda rows: None

    def took(self, rows: int) -> None:
        """As an output, that so many rows were taken."""

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        self.cost_s(batch.num_rows)
        self.calls.append(("rows", port, batch.column(0).to_pylist()))

    def before_marker(self, epoch: Epoch) -> None:
        self.calls.append(("before marker", epoch))

    def freeze(self, epoch: Epoch) -> Cut:
        self.calls.append(("freeze", epoch))
        return Cut((), {})

    def acknowledged(self, cut: Cut) -> SubtaskState:
        return SubtaskState(0)

    def has_large_units(self, state: SubtaskState) -> bool:
        return False

    def on_abort(self, epoch: Epoch) -> None:
        self.calls.append(("abort", epoch))

    def before_end(self) -> Iterator[None]:
        return iter(())

    def end_of_input(self) -> None:
        self.calls.append(("end of input",))

    def on_complete(self, epoch: Epoch, saved: Epoch | None, longest_chain: int) -> None:
        self.calls.append(("complete", epoch))

    def relieve(self) -> None:
        return None

    def tick(self, now: float) -> bool:
        return False

    def problem(self, now: float) -> None:
        return None

    def deadline(self) -> float | None:
        return None

    def close(self) -> None:
        self.calls.append(("close",))

    def send_control(self, element: Any) -> None:
        self.calls.append(("send", element))

    def check_invariants(self) -> None:
        return None

    def flush(self, *, idle: bool = True) -> bool:
        return False


class RecordingGate(Gate):
    def __init__(self, channels: list[InputChannel], calls: list[Any]) -> None:
        super().__init__(channels, lambda channel, size_bytes: None)
        self.calls = calls
        self.sequences = [0] * len(channels)

    def feed(self, number: int, *elements: Any) -> None:
        for element in elements:
            size_bytes = element.nbytes if isinstance(element, pa.RecordBatch) else 0
            self.put(self.channels[number].id, self.sequences[number], element, size_bytes)
            self.sequences[number] += 1

    def block(self, number: int) -> None:
        self.calls.append(("block", number))
        super().block(number)

    def unblock_all(self) -> None:
        self.calls.append(("unblock",))
        super().unblock_all()


class Sweeping:
    """Says when it is asked to sweep, and when it wants to be asked again."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def tick(self, now: float) -> bool:
        self.calls.append(("sweep", now))
        return True

    def deadline(self) -> float:
        return 17.0


class Subject:
    def __init__(
        self, world: Any, channels: int, *, aligned: bool = True, sweeping: bool = False
    ) -> None:
        self.world = world
        self.calls: list[Any] = []
        self.member = Recorder(self.calls)
        self.member.expiry = Sweeping(self.calls) if sweeping else None
        self.gate = RecordingGate(
            [InputChannel(ChannelId(10 + n), port=n) for n in range(channels)], self.calls
        )
        factory: Any = None
        members: list[Any] = [self.member]
        spec = TaskSpec("count", 1, (OperatorSpec("op", "op", factory),))
        reports = TaskReports(world.ports, Attempt(4), spec.id, 0, members)
        slices = SliceSize(0.003, first=64, most=65536)
        clock = world.clock
        files = SharedFiles(world.ports, Attempt(4), 0)
        chain = OperatorChain(members, members, clock, Pace(clock), slices, reports.ended)
        markers = Aligner(channels) if aligned else Tracker(channels)
        head: Any = self.member
        input = GateInput(head, chain, self.gate, markers, clock)
        self.task = Task(spec, world.ports, chain, input, reports, files, 8)

    def run(self) -> list[Any]:
        """Step until nothing happens; what was called on the way."""
        start = len(self.calls)
        while self.task.step():
            self.task.check_invariants()
        return self.calls[start:]


@pytest.fixture
def subject(world: Any) -> Subject:
    return Subject(world, 2)


def test_at_alignment_the_marker_is_sent_then_the_state_frozen_then_the_channels_unblocked(
    subject: Subject,
) -> None:
    subject.gate.feed(0, Marker(Epoch(1)))
    subject.gate.feed(1, Marker(Epoch(1)))
    assert subject.run() == [
        ("block", 0),
        ("before marker", 1),
        ("send", Marker(Epoch(1))),
        ("freeze", 1),
        ("unblock",),
    ]


def test_rows_behind_a_marker_are_processed_after_the_cut(subject: Subject, numbers: Batch) -> None:
    subject.gate.feed(0, numbers(1), Marker(Epoch(1)), numbers(10))
    subject.gate.feed(1, numbers(2), numbers(3))
    before = subject.run()
    assert [call for call in before if call[0] == "rows"] == [
        ("rows", 0, [1]),
        ("rows", 1, [2]),
        ("rows", 1, [3]),
    ]
    subject.gate.feed(1, Marker(Epoch(1)), numbers(20))
    after = subject.run()
    assert after.index(("freeze", 1)) < after.index(("rows", 0, [10]))
    assert after.index(("freeze", 1)) < after.index(("rows", 1, [20]))


def test_a_cut_without_state_is_acknowledged_with_its_alignment_time(subject: Subject) -> None:
    subject.gate.feed(0, Marker(Epoch(1)))
    subject.run()
    subject.world.clock.advance(1.5)
    subject.gate.feed(1, Marker(Epoch(1)))
    subject.run()
    (acknowledged,) = subject.world.told(Acknowledge)
    assert (acknowledged.attempt, acknowledged.epoch) == (4, 1)
    assert (acknowledged.task, acknowledged.subtask) == ("count", 0)
    assert acknowledged.figures.alignment_s == 1.5


def test_the_start_delay_is_from_the_trigger_to_the_first_marker(subject: Subject) -> None:
    subject.task.on_trigger(Epoch(1), is_last=False)
    subject.world.clock.advance(2.0)
    subject.gate.feed(0, Marker(Epoch(1)))
    subject.run()
    subject.world.clock.advance(1.5)
    subject.gate.feed(1, Marker(Epoch(1)))
    subject.run()
    (acknowledged,) = subject.world.told(Acknowledge)
    assert acknowledged.figures.start_delay_s == 2.0


def test_a_marker_that_is_faster_than_the_trigger_has_no_start_delay(subject: Subject) -> None:
    subject.task.on_trigger(Epoch(1), is_last=False)
    subject.world.clock.advance(2.0)
    for channel in (0, 1):
        subject.gate.feed(channel, Marker(Epoch(2)))
    subject.run()
    (acknowledged,) = subject.world.told(Acknowledge)
    assert (acknowledged.epoch, acknowledged.figures.start_delay_s) == (2, 0.0)


def test_alignment_time_is_zero_with_one_channel(world: Any) -> None:
    subject = Subject(world, 1)
    subject.gate.feed(0, Marker(Epoch(1)))
    subject.run()
    (acknowledged,) = world.told(Acknowledge)
    assert acknowledged.figures.alignment_s == 0.0
    assert ("block", 0) not in subject.calls


def test_a_newer_marker_declines_the_older_epoch_and_unblocks(
    subject: Subject, numbers: Batch
) -> None:
    subject.gate.feed(0, Marker(Epoch(1)), numbers(10))
    subject.run()
    subject.gate.feed(1, Marker(Epoch(2)), numbers(20))
    assert subject.run() == [("unblock",), ("block", 1), ("rows", 0, [10])]
    (declined,) = subject.world.told(Decline)
    assert (declined.epoch, declined.task) == (1, "count")
    assert declined.reason == "subsumed by epoch 2"
    assert subject.world.told(Acknowledge) == []


def test_an_abort_unblocks_and_the_late_marker_is_swallowed(
    subject: Subject, numbers: Batch
) -> None:
    subject.gate.feed(0, Marker(Epoch(1)), numbers(10))
    subject.run()
    subject.task.on_abort(Epoch(1))
    subject.gate.feed(1, Marker(Epoch(1)), numbers(20))
    assert sorted(subject.run()) == [("rows", 0, [10]), ("rows", 1, [20])]
    assert subject.world.told(Acknowledge) == []
    assert not any(call[0] == "freeze" for call in subject.calls)


def test_an_abort_of_another_epoch_unblocks_nothing(subject: Subject, numbers: Batch) -> None:
    subject.gate.feed(0, Marker(Epoch(2)), numbers(10))
    subject.run()
    subject.task.on_abort(Epoch(1))
    subject.task.on_abort(Epoch(3))
    assert subject.run() == []


def test_alignment_time_starts_anew_after_an_abort(subject: Subject) -> None:
    subject.gate.feed(0, Marker(Epoch(1)))
    subject.run()
    subject.world.clock.advance(9.0)
    subject.task.on_abort(Epoch(1))
    subject.gate.feed(0, Marker(Epoch(2)))
    subject.gate.feed(1, Marker(Epoch(1)), Marker(Epoch(2)))
    subject.run()
    (acknowledged,) = subject.world.told(Acknowledge)
    assert (acknowledged.epoch, acknowledged.figures.alignment_s) == (2, 0.0)


def test_alignment_time_starts_anew_after_an_abort_at_least_once_too(world: Any) -> None:
    subject = Subject(world, 2, aligned=False)
    subject.gate.feed(0, Marker(Epoch(1)))
    subject.run()
    world.clock.advance(9.0)
    subject.task.on_abort(Epoch(1))
    subject.gate.feed(0, Marker(Epoch(2)))
    subject.run()
    world.clock.advance(0.5)
    subject.gate.feed(1, Marker(Epoch(2)))
    subject.run()
    (acknowledged,) = world.told(Acknowledge)
    assert (acknowledged.epoch, acknowledged.figures.alignment_s) == (2, 0.5)


def test_at_least_once_goes_on_reading_behind_a_marker(world: Any, numbers: Batch) -> None:
    subject = Subject(world, 2, aligned=False)
    subject.gate.feed(0, Marker(Epoch(1)), numbers(10))
    assert subject.run() == [("rows", 0, [10])]
    subject.gate.feed(1, Marker(Epoch(1)))
    assert subject.run() == [
        ("before marker", 1),
        ("send", Marker(Epoch(1))),
        ("freeze", 1),
        ("unblock",),
    ]


def test_the_end_of_input_flows_on_when_every_channel_has_ended(
    subject: Subject, numbers: Batch
) -> None:
    subject.gate.feed(0, EndOfInput())
    assert subject.run() == []
    subject.gate.feed(1, numbers(1), EndOfInput())
    assert subject.run() == [("rows", 1, [1]), ("end of input",), ("send", EndOfInput())]
    assert subject.world.told(Ended) == [Ended(Attempt(4), "count", 0)]


def test_a_task_that_has_ended_still_answers_markers(subject: Subject) -> None:
    for number in (0, 1):
        subject.gate.feed(number, EndOfInput(), Marker(Epoch(1)), Marker(Epoch(2)))
    subject.run()
    assert [message.epoch for message in subject.world.told(Acknowledge)] == [1, 2]
    assert len(subject.world.told(Ended)) == 1
    sent = [call[1] for call in subject.calls if call[0] == "send"]
    assert sent == [EndOfInput(), Marker(Epoch(1)), Marker(Epoch(2))]


def test_a_marker_between_two_ends_of_input_is_aligned(subject: Subject, numbers: Batch) -> None:
    subject.gate.feed(0, EndOfInput(), Marker(Epoch(1)))
    subject.gate.feed(1, numbers(1), Marker(Epoch(1)), EndOfInput())
    calls = subject.run()
    assert calls.index(("freeze", 1)) < calls.index(("end of input",))


def test_without_room_downstream_nothing_is_taken(subject: Subject, numbers: Batch) -> None:
    subject.member.has_room = False
    subject.gate.feed(0, numbers(1), Marker(Epoch(1)))
    assert subject.run() == []
    subject.member.has_room = True
    assert subject.run() == [("rows", 0, [1]), ("block", 0)]


def test_a_slow_function_is_called_with_a_few_rows_at_a_time(world: Any) -> None:
    """A millisecond a row, eight thousand rows: the worker hears others every few of them."""
    subject = Subject(world, 1)
    subject.member.cost_s = lambda rows: world.clock.advance(rows * 0.001)
    batch = pa.record_batch([pa.array(range(8000), pa.int64())], names=["n"])
    subject.gate.feed(0, batch)
    durations = []
    while True:
        started = world.clock.now
        if not subject.task.step():
            break
        durations.append(world.clock.now - started)
    assert sum(len(call[2]) for call in subject.calls) == 8000
    assert durations[0] <= 0.065
    assert max(durations[1:]) <= 0.007


def test_slices_that_are_slow_in_turn_with_short_ones_get_smaller_all_the_same(world: Any) -> None:
    """The processor's clock is read behind slow slices; short ones between them change nothing."""
    subject = Subject(world, 2)
    subject.member.cost_s = lambda rows: world.clock.advance(rows * 0.001 if rows > 1 else 0.0)
    slow = pa.record_batch([pa.array(range(4000), pa.int64())], names=["n"])
    subject.gate.feed(0, slow)
    for n in range(4000):
        subject.gate.feed(1, pa.record_batch([pa.array([n], pa.int64())], names=["n"]))
    durations = []
    while True:
        started = world.clock.now
        if not subject.task.step():
            break
        durations.append(world.clock.now - started)
    assert sum(len(call[2]) for call in subject.calls if call[1] == 0) == 4000
    assert max(durations[1:]) <= 0.007


def test_no_more_is_taken_at_a_time_than_outputs_say(world: Any) -> None:
    subject = Subject(world, 1)
    subject.member.slice_rows = 100.0
    subject.gate.feed(0, pa.record_batch([pa.array(range(8000), pa.int64())], names=["n"]))
    taken = [len(call[2]) for call in subject.run()]
    assert sum(taken) == 8000
    assert max(taken) == 100


def test_rows_of_a_sliced_batch_keep_their_order(world: Any) -> None:
    subject = Subject(world, 1)
    subject.member.cost_s = lambda rows: world.clock.advance(rows * 0.001)
    subject.gate.feed(0, pa.record_batch([pa.array(range(300), pa.int64())], names=["n"]))
    seen = [value for call in subject.run() for value in call[2]]
    assert seen == list(range(300))


def test_completion_reaches_every_operator(subject: Subject) -> None:
    subject.task.on_complete(Epoch(3))
    assert subject.calls == [("complete", 3)]


def test_a_port_is_told_with_its_rows(subject: Subject, numbers: Batch) -> None:
    subject.gate.feed(1, numbers(5))
    assert subject.run() == [("rows", 1, [5])]


def test_what_has_expired_is_swept_between_slices_and_the_loop_is_woken_for_it(
    world: Any, numbers: Batch
) -> None:
    subject = Subject(world, 1, sweeping=True)
    subject.gate.feed(0, numbers(5))
    now = world.clock.now
    assert subject.run() == [("sweep", now), ("rows", 0, [5]), ("sweep", now)]
    assert subject.task.deadline() == 17.0
