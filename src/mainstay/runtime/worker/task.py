"""A task: one subtask of a chain of operators, with its input and its outputs.

It does one small thing at a time: a slice of a batch, a marker, an end of input. When the
markers of an epoch are aligned the order is fixed: broadcast the marker, take the snapshot,
unblock. Anything emitted on account of the epoch comes before the marker.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from mainstay.runtime.messages import ChannelId, Epoch, Marker, StateReads, TaskMetrics
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import TaskSpec
from mainstay.runtime.worker.channel_state import TaskChannels
from mainstay.runtime.worker.counting import HeldBack
from mainstay.runtime.worker.durability import Durability, UnackedCut
from mainstay.runtime.worker.inputs.base import TaskInput
from mainstay.runtime.worker.member import Member
from mainstay.runtime.worker.operator_chain import OperatorChain
from mainstay.runtime.worker.reports import TaskReports
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.state.subtask import KeyedSubtask
from mainstay.tracebacks import pass_on_interrupt, reportable

_IS_BEHIND = Operator.is_behind
SLOW_SLICE_S = 0.02
"""A slice of rows that takes longer is that of a slow function."""


class Task:
    """One subtask of a task, on one worker, in one attempt."""

    def __init__(
        self,
        spec: TaskSpec,
        ports: Ports,
        chain: OperatorChain,
        input: TaskInput,
        reports: TaskReports,
        files: SharedFiles,
        longest_chain: int,
    ) -> None:
        self.spec = spec
        self.chain = chain
        self.members = chain.members
        self.outputs = chain.outputs
        self.input = input
        self.input.snapshots = self
        self.channels: TaskChannels | None = None
        """Set where markers may overtake rows."""
        self._ports = ports
        self._reports = reports
        self._longest_chain = longest_chain
        self._durability = Durability(ports, files, reports.acknowledge, reports.decline)
        self._expiries = [m.expiry for m in self.members if m.expiry is not None]
        self._keyed = [(m, m.keyed) for m in self.members if m.keyed is not None]
        self._ticking = [
            m.operator for m in self.members if type(m.operator).tick is not Operator.tick
        ]
        self._may_fall_behind = [
            m.operator for m in self.members if type(m.operator).is_behind is not _IS_BEHIND
        ]
        self._subtasks = [keyed for _, keyed in self._keyed]
        self._held_back = HeldBack(ports.clock.monotonic())
        self._triggered: dict[Epoch, float] = {}

    @property
    def ended(self) -> bool:
        return self.chain.ended

    # ------------------------------------------------------------ the loop

    def step(self) -> bool:
        """Do one small thing if outputs have room for what it may emit."""
        if self.channels is not None:
            self.channels.tick()
        now = self._ports.clock.monotonic()
        # Before an epoch is declined on that account: one that waits for a target is no failure.
        self._reports.problems(now)
        progressed = self._convert(now)
        self._durability.maintain(self._subtasks)
        for operator in self._ticking:
            progressed = operator.tick(now) or progressed
        for expiry in self._expiries:
            if expiry.tick(now):
                self._spill()
        self._reports.confirmed()
        self._reports.settled()
        has_room = self._has_room()
        self._held_back.note(now, is_held_back=not has_room)
        if has_room and self._take():
            self._relieve()
            return True
        if not has_room and self._may_be_cut and self.input.take_marker():
            return True
        return progressed

    def _take(self) -> bool:
        """What was begun comes before anything new. A marker does not wait for it, if it need
        not."""
        if self.chain.may_be_cut and self.input.take_marker():
            return True
        if self.chain.is_waiting:
            return False
        return self.chain.step() or self.chain.ring() or self.input.step()

    def _convert(self, now: float) -> bool:
        """A slice of what a snapshot needs converted; beside a slow function as much of it as fits
        into the time that the function took for its last slice, so that no epoch waits for it."""
        progressed = has_more = self._durability.step()
        until = now + self.chain.took_s
        while has_more and self.chain.took_s > SLOW_SLICE_S:
            has_more = self._ports.clock.monotonic() < until and self._durability.step()
        return progressed

    @property
    def is_pressed(self) -> bool:
        """Whether more is waiting to be done: then what it emits may wait for company."""
        return self.input.is_pressed or not self.chain.is_settled

    def _has_room(self) -> bool:
        """Whether what comes next can be taken: outputs and sinks may hold it back."""
        for output in self.outputs:
            if not output.has_room:
                return False
        for operator in self._may_fall_behind:
            if operator.is_behind:
                return False
        return not any(self._is_catching_up(*each) for each in self._keyed)

    @property
    def _may_be_cut(self) -> bool:
        """Whether a marker may pass although no rows are taken: they wait for operators alone that
        have all they hold in their state."""
        behind = [operator for operator in self._may_fall_behind if operator.is_behind]
        return (
            bool(behind)
            and all(operator.may_be_cut for operator in behind)
            and all(output.has_room for output in self.outputs)
            and not any(self._is_catching_up(*each) for each in self._keyed)
            and (self.chain.is_settled or self.chain.may_be_cut)
        )

    def _is_catching_up(self, member: Member, keyed: KeyedSubtask) -> bool:
        """Whether a backend has to take changes in before there may be more of them.

        While storage refuses them it cannot, and waiting would not help.
        """
        backend = keyed.backend
        return backend.is_full and (backend.is_busy or self._durability.is_writing(member))

    def _relieve(self) -> None:
        for member in self.members:
            member.relieve()
        self._spill()

    def _spill(self) -> None:
        for member, keyed in self._keyed:
            segment = keyed.spill()
            if segment is not None:
                self._durability.write_early(member, segment)

    # ------------------------------------------------------------ snapshots

    def on_trigger(self, epoch: Epoch, *, is_last: bool) -> None:
        """An epoch has begun, as all workers are told."""
        self._triggered[epoch] = self._ports.clock.monotonic()
        self.input.on_trigger(epoch, is_last=is_last)

    def on_overtake(self, epoch: Epoch) -> None:
        """Cut for the epoch now, whatever stands in line, as far as that is possible."""
        if self.channels is None:
            return
        if self.channels.may_cut_at_once:
            self.input.on_overtake(epoch)
        self.channels.overtake(epoch)

    def on_overtaken(self, channel: ChannelId, epoch: Epoch, sequence: int) -> None:
        """A sender has cut for the epoch: it may be the first to say so."""
        self.on_overtake(epoch)
        assert self.channels is not None
        self.channels.on_overtaken(channel, epoch, sequence)

    def cut(
        self, epoch: Epoch, alignment_s: float = 0.0, arrived: AbstractSet[int] | None = None
    ) -> None:
        """Cut between what was taken and what was not; ``arrived`` is where the marker has come,
        if it is not everywhere."""
        started = self._ports.clock.monotonic()
        # Where markers overtake rows it may be in the middle of a slice. What the head has left of
        # it can be stored; what it has emitted stays within its chain, and is taken to its end.
        self.chain.finish(behind_head=arrived is not None)
        self.input.on_cut(epoch)
        for member in self.members:
            member.operator.before_marker(epoch)
        self._broadcast(epoch)
        cuts = [(member, member.freeze(epoch)) for member in self.members]
        if self.channels is not None:
            late = (
                self.channels.begin(epoch)
                if arrived is None
                else self.channels.begin_at_once(epoch, arrived, self.chain.rest_of_head())
            )
            cuts[0] = (cuts[0][0], replace(cuts[0][1], channels=late))
            self.channels.overtake_if_told(epoch)
        now = self._ports.clock.monotonic()
        delay_s = self._start_delay_s(epoch, started - alignment_s)
        self._durability.begin(UnackedCut(epoch, cuts, alignment_s, now - started, now, delay_s))

    def _start_delay_s(self, epoch: Epoch, began: float) -> float:
        """From the trigger to the first marker; nothing where the marker was faster."""
        triggered = self._triggered.get(epoch, began)
        self._triggered = {each: at for each, at in self._triggered.items() if each > epoch}
        return max(0.0, began - triggered)

    def _broadcast(self, epoch: Epoch) -> None:
        for output in self.outputs:
            output.send_control(Marker(epoch))

    def decline(self, epoch: Epoch, reason: str) -> None:
        self._reports.decline(epoch, reason)

    def on_abort(self, epoch: Epoch) -> None:
        self.input.on_abort(epoch)
        for member in self.members:
            member.on_abort(epoch)
        if self.channels is not None:
            self.channels.drop(epoch)
        self._durability.abort(epoch)

    def on_complete(self, epoch: Epoch, saved: Epoch | None = None) -> None:
        if self.channels is not None:
            self.channels.finished(epoch)
        for member in self.members:
            member.on_complete(epoch, saved, self._longest_chain)
        self._reports.complete(epoch)

    def opened(self) -> None:
        """Its functions are open, and it is about to be said to be ready."""
        self._reports.opened()

    # ------------------------------------------------------------ how it stands

    def metrics(self) -> TaskMetrics:
        chain, input = self.chain, self.input
        row_s, load = chain.effort()
        lasted_s, held_back_s = self._held_back.so_far(self._ports.clock.monotonic())
        chain.counts[0].taken = chain.rows
        counted = list(zip(self.members, chain.counts, strict=True))
        timers = ((member.uid, member.operator.timer_counts) for member in self.members)
        return TaskMetrics(
            chain.rows,
            not self._has_room(),
            input.skipped,
            chain.watermark_us,
            input.queued,
            self.spec.is_source,
            input.rows + chain.rows_left,
            row_s,
            load,
            {member.uid: (count.taken, count.emitted) for member, count in counted},
            self._state_reads(),
            lasted_s,
            chain.busy_s,
            held_back_s,
            () if chain.hot_keys is None else chain.hot_keys.shares(),
            chain.is_idle,
            {member.uid: dict(count.sides) for member, count in counted if count.sides},
            {uid: counts for uid, counts in timers if counts is not None},
            {member.uid: late for member in self.members if (late := member.operator.late_rows)},
        )

    def _state_reads(self) -> StateReads | None:
        """What was read of state that is remote."""
        looks = [keyed.backend.looks for _, keyed in self._keyed]
        found = [each for each in looks if each is not None]
        if not found:
            return None
        return StateReads(
            sum(each.hits for each in found),
            sum(each.misses for each in found),
            sum(each.single_reads for each in found),
            *self.chain.parked(),
        )

    def deadline(self) -> float | None:
        times = [self.input.deadline(has_room=self._has_room())]
        times += [member.operator.deadline() for member in self.members[1:]]
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
            except BaseException as error:
                pass_on_interrupt(error)
                raised.append(reportable(error))
        return raised

    def check_invariants(self) -> None:
        self.input.check_invariants()
        self.chain.check_invariants()
        for _, keyed in self._keyed:
            keyed.chain.check_invariants()
