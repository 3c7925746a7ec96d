"""A watermark that operators take in many slices: nothing passes it, and no cut falls into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from mainstay.runtime.connector import Split
from mainstay.runtime.messages import (
    Attempt,
    ChannelId,
    Ended,
    EndOfInput,
    Epoch,
    Marker,
    TimeMark,
)
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.spec import OperatorSpec, TaskSpec
from mainstay.runtime.watermarks import LAST
from mainstay.runtime.worker.alignment import Aligner
from mainstay.runtime.worker.gate import Gate, InputChannel
from mainstay.runtime.worker.inputs.gated import GateInput
from mainstay.runtime.worker.inputs.source import SourceInput
from mainstay.runtime.worker.member import Cut
from mainstay.runtime.worker.operator_chain import OperatorChain
from mainstay.runtime.worker.pace import Pace
from mainstay.runtime.worker.reports import TaskReports
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.runtime.worker.slices import SliceSize
from mainstay.runtime.worker.task import Task
from mainstay.snapshot.manifest import SubtaskState

Batch = Callable[..., pa.RecordBatch]
CHANNEL = ChannelId(1)


class Firing(Operator):
    """Emits as many rows for a watermark as it is told to, one in a slice."""

    max_slice_rows = 2048

    def __init__(self, name: str, fires: int, calls: list[Any]) -> None:
        self.name, self.fires, self.calls = name, fires, calls
        self.row_s = 0.0

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        taken = []
        for n in self.pieces(batch.column(0).to_pylist()):
            self.clock.advance(self.row_s)
            taken.append(n)
        self.calls.append((self.name, "rows", taken))
        self.out(batch.slice(0, len(taken)))

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        for n in range(self.fires):
            self.calls.append((self.name, "fires", n))
            self.out(pa.record_batch([pa.array([1000 + n], pa.int64())], names=["n"]))
            yield
        self.calls.append((self.name, "time", watermark.time_us))

    def end_of_input(self) -> None:
        self.calls.append((self.name, "end"))


class Placed:
    """A member without state."""

    keyed = expiry = None

    def __init__(self, operator: Any, uid: str, upstream: int | None) -> None:
        self.operator, self.uid = operator, uid
        self.spec = SimpleNamespace(upstream=upstream)
        self.row_context = ProcessContext(uid, 0, 1)

    def freeze(self, epoch: Epoch) -> Cut:
        self.operator.calls.append((self.uid, "freeze", epoch))
        return Cut((), {})

    def acknowledged(self, cut: Cut) -> SubtaskState:
        return SubtaskState(0)

    def has_large_units(self, state: SubtaskState) -> bool:
        return False

    def relieve(self) -> None:
        return None

    def problem(self, now: float) -> None:
        return None


class Sent:
    """An output that notes what it is given."""

    slice_rows = float("inf")
    sender = -1

    def __init__(self, calls: list[Any]) -> None:
        self.calls, self.has_room = calls, True

    def took(self, rows: int) -> None:
        return None

    def emit(self, batch: pa.RecordBatch) -> None:
        self.calls.append(("out", batch.column(0).to_pylist()))

    def send_control(self, element: Any) -> None:
        self.calls.append(("out", element))

    def check_invariants(self) -> None:
        return None


class OneSplit(Operator):
    """A source of rows that a test puts in, with watermarks."""

    makes_watermarks = True
    is_mid_split = is_exhausted = False

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.batches: list[pa.RecordBatch] = []
        self.times: list[TimeMark] = []
        self.assigned: list[Split] = []

    def poll(self, max_rows: int, *, begin: bool = True) -> int | None:
        if not self.batches:
            return None
        batch = self.batches.pop(0)
        self.out(batch)
        return batch.num_rows  # type: ignore[no-any-return]

    def next_watermark(self, now: float) -> TimeMark | None:
        return self.times.pop(0) if self.times else None

    def has_more(self, now: float) -> bool:
        return bool(self.batches)

    def assign(self, splits: tuple[Split, ...], *, last: bool) -> None:
        self.calls.append(("in", "assigned"))
        self.assigned += splits

    def on_watermark(self, watermark: TimeMark) -> Iterator[None]:
        return iter(())


class Subject:
    """A task of two operators, behind a gate of one channel or behind a source."""

    def __init__(self, world: Any, fires: tuple[int, int] = (3, 2), *, is_source: bool = False):
        self.world, self.calls = world, list[Any]()
        self.first = Firing("a", fires[0], self.calls)
        self.second = Firing("b", fires[1], self.calls)
        self.output = Sent(self.calls)
        self.source: Any = OneSplit(self.calls)
        operators: list[Any] = [self.first, self.second]
        if is_source:
            operators.insert(0, self.source)
        self.gate = Gate([InputChannel(CHANNEL, port=0)], lambda channel, size_bytes: None)
        members: list[Any] = [
            Placed(o, getattr(o, "name", "in"), place - 1 if place else None)
            for place, o in enumerate(operators)
        ]
        clock, outputs = world.clock, [self.output]
        pace = Pace(clock)
        for place in range(1, len(operators)):
            into = pace.into(operators[place], place)
            operators[place - 1].out = lambda batch, into=into: into(batch, 0)
        operators[-1].out = self.output.emit
        for operator in operators:
            operator.clock = clock
        factory: Any = None
        spec = TaskSpec("task", 1, (OperatorSpec("a", "a", factory),))
        reports = TaskReports(world.ports, Attempt(1), spec.id, 0, members)
        slices = SliceSize(0.003, first=64, most=64)
        files = SharedFiles(world.ports, Attempt(1), 0)
        self.chain = OperatorChain(members, outputs, clock, pace, slices, reports.ended)  # type: ignore[arg-type]
        self.input: Any = (
            SourceInput(self.source, self.chain, clock)
            if is_source
            else GateInput(self.first, self.chain, self.gate, Aligner(1), clock)
        )
        self.task = Task(spec, world.ports, self.chain, self.input, reports, files, 8)
        self._sequence = 0

    def feed(self, *elements: Any) -> None:
        for element in elements:
            self.gate.put(CHANNEL, self._sequence, element, 0)
            self._sequence += 1

    def step(self) -> list[Any]:
        start = len(self.calls)
        self.task.step()
        self.task.check_invariants()
        return self.calls[start:]

    def run(self) -> list[Any]:
        start = len(self.calls)
        while self.task.step():
            self.task.check_invariants()
        return self.calls[start:]


WHOLE = [
    *[("a", "fires", 0), ("b", "rows", [1000]), ("out", [1000])],
    *[("a", "fires", 1), ("b", "rows", [1001]), ("out", [1001])],
    *[("a", "fires", 2), ("b", "rows", [1002]), ("out", [1002])],
    ("a", "time", 7),
    *[("b", "fires", 0), ("out", [1000])],
    *[("b", "fires", 1), ("out", [1001])],
    ("b", "time", 7),
    ("out", TimeMark(7)),
]
"""The watermark 7 on its way through both operators."""


def test_a_watermark_goes_through_the_operators_in_order_a_slice_at_a_step(world: Any) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7))
    assert subject.step() == WHOLE[:3]
    assert subject.step() == WHOLE[3:6]
    assert subject.task.is_pressed
    assert subject.run() == WHOLE[6:]
    assert subject.task.metrics().watermark_us == 7


@pytest.mark.parametrize("slices", range(6))
def test_rows_behind_a_watermark_wait_until_it_is_through(
    world: Any, numbers: Batch, slices: int
) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7))
    for _ in range(slices):
        subject.step()
    subject.feed(numbers(1), numbers(2))
    subject.run()
    assert subject.calls[: len(WHOLE)] == WHOLE
    assert subject.calls[len(WHOLE)] == ("a", "rows", [1])


def test_a_later_watermark_waits_for_an_earlier_one(world: Any) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7), TimeMark(9))
    subject.run()
    assert subject.calls[: len(WHOLE)] == WHOLE
    assert [call for call in subject.calls if call[1:2] == ("time",)] == [
        ("a", "time", 7),
        ("b", "time", 7),
        ("a", "time", 9),
        ("b", "time", 9),
    ]


def test_a_marker_waits_for_a_watermark_before_it(world: Any) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7), Marker(Epoch(1)))
    subject.run()
    assert subject.calls == [
        *WHOLE,
        ("out", Marker(Epoch(1))),
        ("a", "freeze", 1),
        ("b", "freeze", 1),
    ]


@pytest.mark.parametrize("slices", range(1, 6))
def test_a_cut_that_waits_for_no_marker_finishes_the_watermark_first(
    world: Any, numbers: Batch, slices: int
) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7), numbers(1))
    for _ in range(slices):
        subject.step()
    subject.input.on_overtake(Epoch(1))
    assert subject.calls == [
        *WHOLE,
        ("out", Marker(Epoch(1))),
        ("a", "freeze", 1),
        ("b", "freeze", 1),
    ]
    assert subject.run()[0] == ("a", "rows", [1])


@pytest.mark.parametrize("slices", range(1, 6))
def test_a_trigger_waits_for_the_watermark_that_a_source_has_under_way(
    world: Any, numbers: Batch, slices: int
) -> None:
    subject = Subject(world, is_source=True)
    subject.source.times.append(TimeMark(7))
    subject.source.batches.append(numbers(1))
    for _ in range(slices):
        subject.step()
    subject.input.on_trigger(Epoch(1))
    subject.input.assign((Split("s", None),), last=False)
    subject.source.batches.append(numbers(2))
    subject.run()
    rows = [("a", "rows", [1]), ("b", "rows", [1]), ("out", [1])]
    assert subject.calls == [
        *rows,
        *WHOLE,
        ("out", Marker(Epoch(1))),
        *[("in", "freeze", 1), ("a", "freeze", 1), ("b", "freeze", 1)],
        ("in", "assigned"),
        *[("a", "rows", [2]), ("b", "rows", [2]), ("out", [2])],
    ]


def test_the_end_of_input_waits_for_a_watermark_before_it(world: Any) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7), EndOfInput())
    subject.step()
    assert not subject.task.ended
    subject.run()
    # The end of the last channel says once more how far time has come: that of a stopped input.
    again = WHOLE[:-1]
    ends = [("a", "end"), ("b", "end"), ("out", EndOfInput())]
    assert subject.calls == [*WHOLE, *again, ("out", TimeMark(7, is_idle=True)), *ends]
    assert subject.task.ended
    assert subject.world.told(Ended) == [Ended(Attempt(1), "task", 0)]


def test_the_last_watermark_of_a_source_comes_before_its_end_in_as_many_slices(world: Any) -> None:
    subject = Subject(world, is_source=True)
    subject.source.is_exhausted = True
    assert subject.step() == WHOLE[:3]
    assert not subject.task.ended
    subject.input.on_trigger(Epoch(1))
    subject.run()
    kinds = [call[:2] for call in subject.calls if call[1] in ("time", "end", "freeze")]
    assert kinds == [
        *[("a", "time"), ("b", "time"), ("a", "end"), ("b", "end")],
        *[("in", "freeze"), ("a", "freeze"), ("b", "freeze")],
    ]
    sent = [call[1] for call in subject.calls if call[0] == "out" and not isinstance(call[1], list)]
    assert sent == [LAST, EndOfInput(), Marker(Epoch(1))]


def test_an_operator_hears_of_time_when_it_has_taken_what_was_emitted_for_it(world: Any) -> None:
    """Also where it is too slow to take it in one slice."""
    subject = Subject(world, (1, 0))
    subject.second.row_s = 1.0
    many = pa.record_batch([pa.array(range(100), pa.int64())], names=["n"])

    def in_one_go(watermark: TimeMark) -> Iterator[None]:
        subject.first.out(many)
        return iter(())

    subject.first.on_watermark = in_one_go  # type: ignore[method-assign]
    subject.feed(TimeMark(7))
    assert len(subject.step()) == 2, "a piece of the rows, and what is emitted for it"
    subject.run()
    taken = [n for call in subject.calls if call[:2] == ("b", "rows") for n in call[2]]
    assert taken == list(range(100))
    assert subject.calls[-2:] == [("b", "time", 7), ("out", TimeMark(7))]


def test_without_room_downstream_a_watermark_makes_no_progress(world: Any) -> None:
    subject = Subject(world)
    subject.feed(TimeMark(7))
    subject.step()
    subject.output.has_room = False
    assert not subject.task.step()
    subject.output.has_room = True
    subject.run()
    assert subject.calls == WHOLE


# ---------------------------------------------------------------- cuts within a watermark

CUT = [("out", Marker(Epoch(1))), ("a", "freeze", 1), ("b", "freeze", 1)]


def parts_of_a(slices: int) -> list[Any]:
    """What has happened of the watermark after some slices, while the first operator has it."""
    return WHOLE[: 3 * slices]


@pytest.mark.parametrize("slices", [1, 2, 3])
def test_a_marker_passes_a_watermark_whose_operator_may_be_cut(world: Any, slices: int) -> None:
    subject = Subject(world)
    subject.first.may_be_cut = True
    subject.feed(TimeMark(7))
    for _ in range(slices):
        subject.step()
    subject.feed(Marker(Epoch(1)))
    assert subject.step() == CUT
    subject.run()
    assert subject.calls == [*parts_of_a(slices), *CUT, *WHOLE[3 * slices :]]


def test_a_marker_waits_where_the_watermark_is_with_another_operator(world: Any) -> None:
    subject = Subject(world)
    subject.first.may_be_cut = True
    subject.feed(TimeMark(7))
    for _ in range(4):
        subject.step()
    assert subject.calls[-2:] == [("b", "fires", 0), ("out", [1000])]
    subject.feed(Marker(Epoch(1)))
    subject.run()
    assert subject.calls == [*WHOLE, *CUT]


@pytest.mark.parametrize("slices", [1, 2, 3])
def test_a_cut_that_waits_for_no_marker_leaves_the_rest_of_such_a_watermark(
    world: Any, numbers: Batch, slices: int
) -> None:
    subject = Subject(world)
    subject.first.may_be_cut = True
    subject.feed(TimeMark(7), numbers(1))
    for _ in range(slices):
        subject.step()
    subject.input.on_overtake(Epoch(1))
    assert subject.calls == [*parts_of_a(slices), *CUT]
    subject.run()
    through = [*parts_of_a(slices), *CUT, *WHOLE[3 * slices :]]
    assert subject.calls[: len(through)] == through
    assert subject.calls[len(through)] == ("a", "rows", [1])


def test_a_source_cuts_within_such_a_watermark(world: Any, numbers: Batch) -> None:
    subject = Subject(world, is_source=True)
    subject.first.may_be_cut = True
    subject.source.times.append(TimeMark(7))
    subject.source.batches.append(numbers(1))
    subject.step()
    subject.step()
    rows = [("a", "rows", [1]), ("b", "rows", [1]), ("out", [1])]
    subject.input.on_trigger(Epoch(1))
    assert subject.calls == [*rows, *WHOLE[:6], CUT[0], ("in", "freeze", 1), *CUT[1:]]


def test_a_marker_passes_the_watermarks_before_it_within_one_and_no_row_does(
    world: Any, numbers: Batch
) -> None:
    subject = Subject(world)
    subject.first.may_be_cut = True
    subject.feed(TimeMark(7), TimeMark(8), Marker(Epoch(1)), numbers(1))
    subject.run()
    kinds = [call for call in subject.calls if call[1] in ("time", "freeze")]
    assert kinds == [
        *[("a", "freeze", 1), ("b", "freeze", 1)],
        *[("a", "time", 7), ("b", "time", 7)],
        *[("a", "time", 8), ("b", "time", 8)],
    ]


# ---------------------------------------------------------------- the wall clock


class Ringing(Firing):
    """Is due when a test says so."""

    is_rung = False

    def is_due(self) -> bool:
        return self.is_rung

    def on_clock(self) -> Iterator[None]:
        self.is_rung = False
        for n in range(2):
            self.calls.append((self.name, "rings", n))
            self.out(pa.record_batch([pa.array([2000 + n], pa.int64())], names=["n"]))
            yield


def test_what_is_due_by_the_clock_comes_before_new_rows_and_markers(
    world: Any, numbers: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "Firing", Ringing)
    subject = Subject(world)
    subject.feed(numbers(1))
    subject.run()
    subject.feed(numbers(2), Marker(Epoch(1)))
    ringing: Any = subject.first
    ringing.is_rung = True
    rung = [
        *[("a", "rings", 0), ("b", "rows", [2000]), ("out", [2000])],
        *[("a", "rings", 1), ("b", "rows", [2001]), ("out", [2001])],
    ]
    rows = [("a", "rows", [2]), ("b", "rows", [2]), ("out", [2])]
    assert subject.run() == [*rung, *rows, *CUT]


def test_nothing_rings_after_the_end_of_input(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Firing", Ringing)
    subject = Subject(world)
    subject.feed(EndOfInput())
    subject.run()
    ringing: Any = subject.second
    ringing.is_rung = True
    assert subject.run() == []
