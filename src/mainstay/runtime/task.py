"""A task: one subtask of a chain of operators, with its gate and its outputs.

It does one small thing at a time: a slice of a batch, a marker, an end of input. When the
markers of an epoch are aligned the order is fixed: broadcast the marker, take the snapshot,
unblock. Anything emitted on account of the epoch comes before the marker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mainstay.errors import RAISED
from mainstay.runtime.alignment import Action, Aligner, MarkerHandler
from mainstay.runtime.channel_state import TaskChannels
from mainstay.runtime.connector import Split
from mainstay.runtime.counting import Counts, Effort
from mainstay.runtime.durability import Durability, PendingEpoch
from mainstay.runtime.gate import Gate
from mainstay.runtime.messages import (
    Acknowledge,
    Attempt,
    ChannelId,
    Committed,
    Decline,
    Ended,
    EndOfInput,
    Epoch,
    Figures,
    Marker,
    OutsideProblem,
    TaskMetrics,
    Watermark,
)
from mainstay.runtime.operators.loop import LoopHead
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.output import Output
from mainstay.runtime.pace import Pace
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.replays import Replays
from mainstay.runtime.slices import SliceSize
from mainstay.runtime.spec import TaskSpec
from mainstay.runtime.stateful import StatefulOperator
from mainstay.runtime.status import Problem
from mainstay.runtime.tracebacks import reportable
from mainstay.runtime.watermarks import LAST, GateClock
from mainstay.snapshot.manifest import SubtaskState

LEAST_ROWS = 16
"""Rows that are taken at a time at least, if there are as many, however slow receivers are."""

RESUMED_ROWS = 1024
"""Rows of a slice that took too long that are turned into rows again at a time."""


class Task:
    """One subtask of a task, on one worker, in one attempt."""

    def __init__(
        self,
        spec: TaskSpec,
        subtask: int,
        attempt: Attempt,
        ports: Ports,
        members: list[StatefulOperator],
        gate: Gate,
        outputs: list[Output],
        markers: MarkerHandler,
        slices: SliceSize,
        longest_chain: int,
        pace: Pace | None = None,
    ) -> None:
        self.spec = spec
        self.subtask = subtask
        self.members = members
        self.gate = gate
        self.outputs = outputs
        self.ended = False
        self._attempt = attempt
        self._ports = ports
        self._markers = markers
        self._slices = slices
        self._longest_chain = longest_chain
        self._head: Any = members[0].operator
        self._pace = pace or Pace(ports.clock)
        self._pace.into(self._head, 0)
        self.counts: list[Counts] = [Counts() for _ in members]
        self._effort = Effort(ports.clock.monotonic())
        self._aligning_since: dict[Epoch, float] = {}
        self._durability = Durability(ports, self._acknowledge, self._decline)
        self._sinks = [m.operator for m in members if isinstance(m.operator, SinkOperator)]
        self._expiries = [member.expiry for member in members if member.expiry is not None]
        self._databases = [member for member in members if member.rocksdb is not None]
        self._told_confirmed = Epoch(0)
        self._told_problems: dict[str, Problem] = {}
        self._troubled: list[tuple[str, Callable[[float], Problem | None]]] = [
            (m.uid, m.operator.problem)
            for m in members
            if isinstance(m.operator, SourceOperator | SinkOperator)
        ]
        self._troubled += [(m.uid, m.problem) for m in members if m.backend is not None]
        self._awaited = self._last_cut = Epoch(0)
        self._waiting: list[tuple[Epoch | None, Callable[[], None]]] = []
        """Triggers that wait for the end of a split or of what is replayed, and what came after
        them, in order."""
        self.replays = Replays()
        self.channels: TaskChannels | None = None
        """Set where snapshots may be unaligned."""
        self.watermark_us: int | None = None
        self._time = GateClock(len(gate.channels))
        self._rows = 0
        self._has_more = False
        self._is_held = False
        self._is_drained = False

    # ------------------------------------------------------------ the loop

    def step(self) -> bool:
        """Do one small thing if outputs have room for what it may emit."""
        if self.channels is not None:
            self.channels.tick()
        now = self._ports.clock.monotonic()
        # Before an epoch is declined on that account: one that waits for a target is no failure.
        self._report_problems(now)
        progressed = self._durability.step()
        self._durability.tend(self._databases)
        for member in self.members:
            progressed = member.operator.tick(now) or progressed
        for expiry in self._expiries:
            if expiry.tick(now):
                self._spill()
        self._report_confirmed()
        if not self._has_room():
            return progressed
        if self._pace.has_rest:
            self._resume(now)
            return True
        if not self.replays.is_empty:
            self._replay()
            return True
        if isinstance(self._head, SourceOperator):
            return self._step_source(self._head) or progressed
        if isinstance(self._head, LoopHead):
            return self._step_loop(self._head) or progressed
        return self._step_gate() or progressed

    @property
    def is_pressed(self) -> bool:
        """Whether more is waiting to be done: then what it emits may wait for company."""
        has_rows = self.gate.is_ready or self._pace.has_rest or not self.replays.is_empty
        return self._has_more or has_rows or self._has_feedback

    @property
    def _has_feedback(self) -> bool:
        return isinstance(self._head, LoopHead) and self._head.feedback.is_ready

    def _has_room(self) -> bool:
        """Whether what comes next can be taken: outputs and sinks may hold it back."""
        return (
            all(output.has_room for output in self.outputs)
            and not any(sink.is_behind for sink in self._sinks)
            and not any(self._is_catching_up(member) for member in self._databases)
        )

    def _is_catching_up(self, member: StatefulOperator) -> bool:
        """Whether a database has to take changes in before there may be more of them.

        While storage refuses them it cannot, and waiting would not help.
        """
        return member.is_full and (member.is_tended or self._durability.is_writing(member))

    def _step_source(self, source: SourceOperator) -> bool:
        if self._waiting and not source.is_mid_split:
            self._take_waiting()
            return True
        if self.ended or self._is_held:
            return False
        if source.is_exhausted or (self._is_drained and not source.is_mid_split):
            self._end()
            return True
        clock = self._ports.clock
        started, computed = clock.monotonic(), clock.cpu()
        self._pace.begin(started)
        rows = source.poll(self._slice_rows, begin=not self._waiting and not self._is_drained)
        self._pace.end()
        now = clock.monotonic()
        self._has_more = bool(rows) and source.has_more(now)
        if rows:
            self._took(rows, now - started, clock.cpu() - computed)
        # Event time does not overtake rows that are left of a slice.
        watermark = None if self._pace.has_rest else source.next_watermark(started)
        self._on_time(watermark)
        return rows is not None or watermark is not None

    def _pass_on(self, watermark: Watermark) -> None:
        """Event time moves on, behind every row that was taken before."""
        self.watermark_us = watermark.time_us
        for member in self.members:
            member.operator.flush()
            member.view.watermark_us = watermark.time_us
        for output in self.outputs:
            output.send_control(watermark)

    def _step_gate(self) -> bool:
        if not self.gate.is_ready:
            return False
        self._take(*self.gate.take(self._slice_rows, self._ports.clock.monotonic()))
        return True

    def _replay(self) -> None:
        """In-flight rows of the snapshot come before anything new, and before its markers."""
        place, port, batch = self.replays.take(self._slice_rows)
        self._process(batch, port, place)

    def _step_loop(self, head: LoopHead) -> bool:
        """What came back goes before what is new, unless an epoch waits behind that; a restored
        log goes before everything."""
        feedback = head.feedback
        if self.ended or feedback.is_full:
            return self._step_control()
        if head.is_done:
            self._end()
            return True
        if self._is_held:
            return self._step_control()
        if self._is_awaited and not feedback.is_replaying and self._step_gate():
            return True
        batch = feedback.take(self._slice_rows)
        if batch is not None:
            self._process(batch, 0)
            return True
        return self._step_control() if feedback.is_replaying else self._step_gate()

    def _step_control(self) -> bool:
        taken = self.gate.take_control()
        if taken is not None:
            self._take(*taken)
        return taken is not None

    def _process(self, batch: pa.RecordBatch, port: int, place: int = 0) -> None:
        clock = self._ports.clock
        started, computed = clock.monotonic(), clock.cpu()
        self._pace.begin(started)
        self._pace.way_into(self.members[place].operator, place)(batch, port)
        self._pace.end()
        self._took(batch.num_rows, clock.monotonic() - started, clock.cpu() - computed)
        self._relieve()

    def _resume(self, now: float) -> None:
        """Go on with a slice that took too long."""
        left = self._pace.rows_left
        self._pace.begin(now)
        self._pace.resume(RESUMED_ROWS)
        self._pace.end()
        self._effort.took(left - self._pace.rows_left, self._ports.clock.monotonic() - now)
        self._relieve()

    def _relieve(self) -> None:
        for member in self.members:
            member.relieve()
        self._spill()

    @property
    def _slice_rows(self) -> int:
        """How many rows to take: those of a few milliseconds, and fewer where what is emitted for
        them would keep receivers busy for long. Markers wait behind it."""
        most = min((output.slice_rows for output in self.outputs), default=math.inf)
        return int(min(self._slices.rows, max(LEAST_ROWS, most)))

    def _took(self, rows: int, elapsed_s: float, cpu_s: float) -> None:
        self._rows += rows
        self._effort.took(rows - self._pace.rows_left, elapsed_s)
        self._slices.took(rows, elapsed_s, cpu_s)
        if rows:
            for output in self.outputs:
                output.took(rows)

    def _take(self, number: int, element: Any) -> None:
        if isinstance(element, pa.RecordBatch):
            self._process(element, self.gate.channels[number].port)
        elif isinstance(element, Marker):
            self._on_marker(number, element.epoch)
        elif isinstance(element, Watermark):
            self._on_time(self._time.on_watermark(number, element))
        else:
            self._on_time(self._time.on_end(number))
            if self.gate.end(number):
                self._on_all_input()

    def _on_all_input(self) -> None:
        if isinstance(self._head, LoopHead):
            self._head.has_all_input = True
        else:
            self._end()

    def end_loop(self) -> None:
        """No row is left in any loop; the task ends with its input, if it is the head of one."""
        if isinstance(self._head, LoopHead):
            self._head.may_end = True

    def _on_time(self, watermark: Watermark | None) -> None:
        if watermark is not None:
            self._pass_on(watermark)

    def _spill(self) -> None:
        for member in self._databases:
            segment = member.spill()
            if segment is not None:
                self._durability.write_early(member, segment)

    def _end(self) -> None:
        """All input is processed: let every operator flush, and say so downstream."""
        self.ended = True
        for member in self.members:
            member.operator.end_of_input()
        if isinstance(self._head, SourceOperator) and self._head.makes_watermarks:
            self._pass_on(LAST)
        for output in self.outputs:
            output.send_control(EndOfInput())
        self._tell(Ended(self._attempt, self.spec.id, self.subtask))

    def flush(self, *, idle: bool) -> bool:
        # The operators first: what they hold back goes out with the rest.
        held = sum(member.operator.flush(idle=idle) for member in self.members)
        return held + sum(output.flush() for output in self.outputs) > 0

    # ------------------------------------------------------------ snapshots

    def on_trigger(self, epoch: Epoch, *, is_last: bool = False) -> None:
        """The coordinator's word, for tasks that start with a source. Finished ones answer too.

        After the last epoch nothing is read: it would only be thrown away.
        """

        def take() -> None:
            self._cut(epoch)
            self._is_held = self._is_held or is_last

        self._waiting.append((epoch, take))
        is_mid_split = isinstance(self._head, SourceOperator) and self._head.is_mid_split
        if not is_mid_split and not self._pace.has_rest and self.replays.is_empty:
            self._take_waiting()

    def on_triggered(self, epoch: Epoch) -> None:
        """An epoch has begun at the sources. The head of a loop lets its marker through: behind
        what comes back, for as long as anything does, it might wait for ever."""
        self._awaited = epoch

    @property
    def _is_awaited(self) -> bool:
        return self._awaited > self._last_cut

    def assign(self, splits: tuple[Split, ...], *, last: bool) -> None:
        """Splits for the source. Those that come after a trigger are not in its cut, because they
        are not in the notes that the coordinator took with it."""

        def take() -> None:
            self._head.assign(splits, last=last)

        if self._waiting:
            self._waiting.append((None, take))
        else:
            take()

    def _take_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, take in waiting:
            take()

    def hold(self) -> None:
        """Read nothing at all: the attempt starts from the epoch that the job halts with."""
        self._is_held = True

    def drain(self) -> None:
        """The source is taken for ended where it stands; its splits keep their offsets."""
        self._is_drained = True

    def _on_marker(self, number: int, epoch: Epoch) -> None:
        verdict = self._markers.on_marker(number, epoch)
        if verdict.abandoned is not None:
            self.gate.unblock_all()
            self._aligning_since.pop(verdict.abandoned, None)
            self._decline(verdict.abandoned, f"subsumed by epoch {epoch}")
        if verdict.action is Action.IGNORE:
            return
        now = self._ports.clock.monotonic()
        since = self._aligning_since.setdefault(epoch, now)
        if verdict.action is Action.BLOCK:
            self.gate.block(number)
        elif verdict.action is Action.SNAPSHOT:
            waiting = self._aligning_since.items()
            self._aligning_since = {later: start for later, start in waiting if later > epoch}
            self._cut(epoch, now - since)
            self.gate.unblock_all()

    def on_overtake(self, epoch: Epoch) -> None:
        """Cut for the epoch now, whatever stands in line, as far as that is possible."""
        if self.channels is None:
            return
        if self.channels.may_cut_at_once and isinstance(self._markers, Aligner):
            verdict, arrived = self._markers.overtake(epoch)
            if verdict.abandoned is not None:
                self._decline(verdict.abandoned, f"subsumed by epoch {epoch}")
            if verdict.action is Action.SNAPSHOT:
                now = self._ports.clock.monotonic()
                since = self._aligning_since.pop(epoch, now)
                self.gate.unblock_all()
                self._cut(epoch, now - since, arrived)
        self.channels.overtake(epoch)

    def on_overtaken(self, channel: ChannelId, epoch: Epoch, sequence: int) -> None:
        """A sender has cut for the epoch: it may be the first to say so."""
        self.on_overtake(epoch)
        assert self.channels is not None
        self.channels.on_overtaken(self.gate.number_of(channel), epoch, sequence)

    def _cut(self, epoch: Epoch, alignment_s: float = 0.0, arrived: set[int] | None = None) -> None:
        """Cut between what was taken and what was not; ``arrived`` is where the marker has come,
        if it is not everywhere."""
        started = self._ports.clock.monotonic()
        # Where markers overtake rows it may be in the middle of a slice, which is in no queue.
        self._pace.finish(RESUMED_ROWS)
        self._last_cut = epoch
        for member in self.members:
            member.operator.before_marker(epoch)
        self._broadcast(epoch)
        cuts = [(member, member.freeze(epoch)) for member in self.members]
        if self.channels is not None:
            late = (
                self.channels.begin(epoch)
                if arrived is None
                else self.channels.begin_at_once(epoch, arrived)
            )
            cuts[0] = (cuts[0][0], replace(cuts[0][1], channels=late))
            self.channels.overtake_if_told(epoch)
        now = self._ports.clock.monotonic()
        self._durability.begin(PendingEpoch(epoch, cuts, alignment_s, now - started, now))

    def _broadcast(self, epoch: Epoch) -> None:
        for output in self.outputs:
            output.send_control(Marker(epoch))

    def on_abort(self, epoch: Epoch) -> None:
        if self._markers.on_abort(epoch):
            self.gate.unblock_all()
        self._aligning_since.pop(epoch, None)
        if epoch == self._awaited:
            self._awaited = self._last_cut
        self._waiting = [waiting for waiting in self._waiting if waiting[0] != epoch]
        if all(trigger is None for trigger, _ in self._waiting):
            self._take_waiting()
        for member in self.members:
            member.operator.on_abort(epoch)
        if self.channels is not None:
            self.channels.drop(epoch)
        self._durability.abort(epoch)

    def on_complete(self, epoch: Epoch) -> None:
        if self.channels is not None:
            self.channels.finished(epoch)
        for member in self.members:
            member.operator.on_complete(epoch)
        self._durability.compact(self.members, self._longest_chain)

    # ------------------------------------------------------------ to the coordinator

    def _tell(self, message: Any) -> None:
        self._ports.send(COORDINATOR, message)

    def _acknowledge(self, epoch: Epoch, states: dict[str, SubtaskState], figures: Figures) -> None:
        self._tell(Acknowledge(self._attempt, epoch, self.spec.id, self.subtask, states, figures))

    def _decline(self, epoch: Epoch, reason: str) -> None:
        self._tell(Decline(self._attempt, epoch, self.spec.id, self.subtask, reason))

    def _report_confirmed(self) -> None:
        if not self._sinks:
            return
        confirmed = min(sink.confirmed for sink in self._sinks)
        if confirmed > self._told_confirmed:
            self._told_confirmed = confirmed
            self._tell(Committed(self._attempt, confirmed, self.spec.id, self.subtask))

    def _report_problems(self, now: float) -> None:
        for uid, ask in self._troubled:
            problem = ask(now)
            if problem == self._told_problems.get(uid):
                continue
            self._told_problems.pop(uid, None)
            if problem is not None:
                self._told_problems[uid] = problem
            self._tell(OutsideProblem(self._attempt, uid, self.subtask, problem))

    def metrics(self) -> TaskMetrics:
        skipped = self._head.skipped if isinstance(self._head, SourceOperator) else 0
        queued = self._head.feedback.rows if isinstance(self._head, LoopHead) else 0
        row_s, load = self._effort.lately(self._ports.clock.monotonic())
        self.counts[0].taken = self._rows
        uids = (operator.uid for operator in self.spec.operators)
        return TaskMetrics(
            self._rows,
            not self._has_room(),
            skipped,
            self.watermark_us,
            queued,
            self.spec.is_source,
            self.gate.rows + self.replays.rows + self._pace.rows_left,
            row_s,
            load,
            {uid: (c.taken, c.emitted) for uid, c in zip(uids, self.counts, strict=True)},
        )

    def deadline(self) -> float | None:
        # A source that may not run has no say in when to look again.
        is_read = self._has_room() and not self._is_held and not self._is_drained
        awake = self.members if is_read else self.members[self.spec.is_source :]
        times = [member.operator.deadline() for member in awake]
        times += [expiry.deadline() for expiry in self._expiries]
        return min((time for time in times if time is not None), default=None)

    def close(self, *, in_good_order: bool) -> list[Exception]:
        """Close functions where that is due, and give back what is held; what this has raised.

        One that fails keeps none of the others from being closed.
        """
        acts = [member.close for member in self.members] if in_good_order else []
        raised: list[Exception] = []
        for act in (*acts, *(member.release for member in self.members)):
            try:
                act()
            except RAISED as error:
                raised.append(reportable(error))
        return raised

    def check_invariants(self) -> None:
        self.gate.check_invariants()
        for member in self.members:
            member.chain.check_invariants()
