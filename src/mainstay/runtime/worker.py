"""The worker: subtask *i* of every task, driven by one thread that never waits.

``receive`` takes a message, ``step`` does a little of everything there is to do. Downstream
tasks come first, so that what is under way is finished before more is begun; sources come last
and only while their outputs have room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstay.runtime.assembly import Assembler
from mainstay.runtime.gate import Gate
from mainstay.runtime.messages import (
    AbortEpoch,
    AssignSplits,
    Attempt,
    ChannelId,
    Credit,
    Data,
    Drain,
    Element,
    EndLoops,
    Epoch,
    EpochComplete,
    Metrics,
    Overtake,
    Overtaken,
    Ready,
    Release,
    Released,
    SinkCommitted,
    Trigger,
)
from mainstay.runtime.operators.loop import LoopHead, LoopTail
from mainstay.runtime.operators.sink import SinkOperator
from mainstay.runtime.output import OutputChannel
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.stateful import RestoredState, StatefulOperator
from mainstay.runtime.task import Task
from mainstay.snapshot.statefile import StateTable

METRICS_S = 0.5
"""How often a worker says what its tasks have done."""

Restored = Mapping[tuple[str, int], RestoredState]
"""What each (operator uid, subtask) starts from."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What one attempt runs and what it starts from."""

    job: JobSpec
    attempt: Attempt
    lineage: str
    restored: Restored = field(default_factory=dict)
    tuning: Tuning = field(default_factory=Tuning)
    is_held: bool = False
    """Whether sources read nothing: the job is about to halt with what it starts from."""


class Worker:
    """One worker of one attempt."""

    def __init__(self, deployment: Deployment, number: int, ports: Ports) -> None:
        self.attempt = deployment.attempt
        self.number = number
        self.released = False
        self._ports = ports
        self._deployment = deployment
        self._failure: Exception | None = None
        self._assembler = Assembler(
            deployment.job,
            deployment.attempt,
            deployment.lineage,
            number,
            ports,
            deployment.tuning,
            self._transmit,
            self._announce,
            self._grant,
            self._fail,
        )
        self.tasks = [
            self._assembler.build(spec)
            for spec in reversed(deployment.job.tasks)
            if number < spec.parallelism
        ]
        self._route(deployment.job)
        self._close_loops()
        if deployment.is_held:
            for task in self.tasks:
                task.hold()
        self._applying: deque[Iterator[None]] = deque()
        self._reading = 0
        self._is_ready = False
        self._ended = 0
        self._flushed_at = self._metrics_at = ports.clock.monotonic()
        self._restore()

    # ------------------------------------------------------------ channels

    def _route(self, job: JobSpec) -> None:
        mine = self.number
        self._gates: dict[ChannelId, Gate] = {}
        self._senders: dict[ChannelId, OutputChannel] = {}
        self._receivers: dict[ChannelId, int] = {}
        self._sending_worker: dict[ChannelId, int] = {}
        for task in self.tasks:
            for edge in task.spec.inputs:
                for channel, sender in edge.incoming(mine):
                    self._gates[channel] = task.gate
                    self._sending_worker[channel] = sender
            for edge, output in zip(task.spec.outputs, task.outputs, strict=True):
                for (channel, receiver), sending in zip(
                    edge.outgoing(mine), output.channels, strict=True
                ):
                    self._senders[channel] = sending
                    self._receivers[channel] = receiver

    def _close_loops(self) -> None:
        """Join the tails of loops to their heads, which are on this worker too."""
        heads = {
            member.uid: member.operator
            for member in self._members()
            if isinstance(member.operator, LoopHead)
        }
        for member in self._members():
            if isinstance(member.operator, LoopTail):
                assert member.spec.loop is not None
                member.operator.head = heads[member.spec.loop.head]

    def _transmit(
        self, channel: ChannelId, sequence: int, element: Element, size_bytes: int
    ) -> None:
        receiver = self._receivers[channel]
        if receiver == self.number:
            self._gates[channel].put(channel, sequence, element, size_bytes)
        else:
            data = Data(self.attempt, channel, sequence, element, size_bytes)
            self._ports.send(receiver, data)

    def _announce(self, channel: ChannelId, epoch: Epoch, sequence: int) -> None:
        receiver = self._receivers[channel]
        message = Overtaken(self.attempt, channel, epoch, sequence)
        if receiver == self.number:
            self._on_overtaken(message)
        else:
            self._ports.send(receiver, message)

    def _on_overtaken(self, message: Overtaken) -> None:
        gate = self._gates[message.channel]
        for task in self.tasks:
            if task.gate is gate:
                task.on_overtaken(message.channel, message.epoch, message.sequence)

    def _grant(self, channel: ChannelId, size_bytes: int) -> None:
        sender = self._sending_worker[channel]
        if sender == self.number:
            self._senders[channel].grant(size_bytes)
        else:
            self._ports.send(sender, Credit(self.attempt, channel, size_bytes))

    # ------------------------------------------------------------ restore

    def _restore(self) -> None:
        """Start reading what every operator is restored from; ``step`` applies it."""
        restored = self._deployment.restored
        for member in self._members():
            state = restored.get((member.uid, self.number))
            if state is None:
                continue
            member.restore_units(state.units)
            if state.chain:
                self._read(member, state)
        self._become_ready()

    def _members(self) -> Iterator[StatefulOperator]:
        for task in self.tasks:
            yield from task.members

    def _read(self, member: StatefulOperator, state: RestoredState) -> None:
        self._reading += 1
        storage, open_place = self._ports.storage, self._ports.open

        def work() -> list[StateTable]:
            origin = storage if state.origin is None else open_place(state.origin)
            return member.read(storage, state, origin)

        def done(tables: list[StateTable]) -> None:
            self._reading -= 1
            self._applying.append(member.restore_tables(tables, state))

        self._ports.background.submit(work, done, self._fail)

    def _apply_slice(self) -> None:
        for _ in self._applying[0]:
            return
        self._applying.popleft()
        self._become_ready()

    def _become_ready(self) -> None:
        if self._reading or self._applying or self._is_ready:
            return
        for task in self.tasks:
            self._assembler.replay(task, self._deployment.restored)
            self._assembler.open(task)
        self._is_ready = True
        self._ports.send(COORDINATOR, Ready(self.attempt, self.number))

    # ------------------------------------------------------------ the loop

    def step(self) -> bool:
        """Do a little; False when nothing can be done before a message or a deadline.

        Raises what ended the worker: an error of user code, a damaged file, a broken rule.
        """
        if self.released:
            return False
        if self._failure is not None:
            raise self._failure
        if self._applying:
            self._apply_slice()
            return True
        if not self._is_ready:
            return False
        self._report_metrics()
        progressed = False
        for task in self.tasks:
            progressed = task.step() or progressed
        is_pressed = progressed and any(task.is_pressed for task in self.tasks)
        return self._flush(idle=not is_pressed) or progressed

    def _report_metrics(self) -> None:
        now = self._ports.clock.monotonic()
        ended = sum(task.ended for task in self.tasks)
        if now >= self._metrics_at or ended > self._ended:
            # What a task came to is said with its end, however short it was.
            self._ended = ended
            self._metrics_at = now + METRICS_S
            tasks = {task.spec.id: task.metrics() for task in self.tasks}
            self._ports.send(COORDINATOR, Metrics(self.attempt, self.number, tasks))

    def _flush(self, *, idle: bool) -> bool:
        now = self._ports.clock.monotonic()
        if not idle and now - self._flushed_at < self._deployment.tuning.flush_s:
            return False
        self._flushed_at = now
        return sum(task.flush(idle=idle) for task in self.tasks) > 0

    def deadline(self) -> float | None:
        """When something will have to be done even if no message arrives."""
        if self.released:
            return None
        times = [task.deadline() for task in self.tasks]
        return min((time for time in times if time is not None), default=None)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error

    # ------------------------------------------------------------ messages

    def receive(self, message: Any) -> None:
        """Take a message; those of other attempts are refused, and all after the release."""
        if message.attempt != self.attempt or self.released:
            return
        match message:
            case Data(_, channel, sequence, element, size_bytes):
                self._gates[channel].put(channel, sequence, element, size_bytes)
            case Credit(_, channel, size_bytes):
                self._senders[channel].grant(size_bytes)
            case Trigger(_, epoch, is_last):
                # So that what is known at the end of a job is known of all of it.
                self._metrics_at = self._ports.clock.monotonic()
                for task in self._source_tasks():
                    task.on_trigger(epoch, is_last=is_last)
                for task in self.tasks:
                    task.on_triggered(epoch)
            case Overtake(_, epoch):
                for task in self.tasks:
                    task.on_overtake(epoch)
            case Overtaken():
                self._on_overtaken(message)
            case Drain():
                for task in self._source_tasks():
                    task.drain()
            case EndLoops():
                for task in self.tasks:
                    task.end_loop()
            case AbortEpoch(_, epoch):
                for task in self.tasks:
                    task.on_abort(epoch)
            case EpochComplete(_, epoch):
                for task in self.tasks:
                    task.on_complete(epoch)
            case SinkCommitted(_, uid, epoch):
                self._sink_committed(uid, epoch)
            case AssignSplits(_, uid, _, splits, last):
                self._source_task(uid).assign(splits, last=last)
            case Release(_, in_good_order):
                self._release(in_good_order=in_good_order)

    def _source_tasks(self) -> list[Task]:
        return [task for task in self.tasks if task.spec.is_source]

    def _source_task(self, uid: str) -> Task:
        for task in self._source_tasks():
            if task.members[0].uid == uid:
                return task
        raise KeyError(f"worker {self.number} has no source {uid!r}")

    def _sink_committed(self, uid: str, epoch: Epoch) -> None:
        for member in self._members():
            if member.uid == uid and isinstance(member.operator, SinkOperator):
                member.operator.on_committed(epoch)

    def _release(self, *, in_good_order: bool) -> None:
        if self.released:
            return
        self.released = True
        # Functions that were never opened are not closed either.
        in_good_order = in_good_order and self._is_ready
        raised = [e for task in self.tasks for e in task.close(in_good_order=in_good_order)]
        if in_good_order:
            trouble = "\n".join(str(error) for error in raised)
            self._ports.send(COORDINATOR, Released(self.attempt, self.number, trouble))

    def check_invariants(self) -> None:
        for task in self.tasks:
            task.check_invariants()

    def task(self, id: str) -> Task:
        return next(task for task in self.tasks if task.spec.id == id)
