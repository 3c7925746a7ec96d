"""Assembly: from the specification of a task to its operators, gate and outputs on a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mainstay.runtime.alignment import Aligner, MarkerHandler, Tracker
from mainstay.runtime.channel_state import TaskChannels
from mainstay.runtime.counting import Counts
from mainstay.runtime.gate import Gate, Grant, InputChannel
from mainstay.runtime.messages import Attempt
from mainstay.runtime.operators.base import Emit, OperatorContext
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.output import Announce, Output, OutputChannel, Transmit
from mainstay.runtime.pace import Pace
from mainstay.runtime.partition import partitioner_for
from mainstay.runtime.ports import Ports
from mainstay.runtime.replays import own_rows
from mainstay.runtime.slices import SliceSize
from mainstay.runtime.spec import JobSpec, TaskSpec, Tuning
from mainstay.runtime.stateful import RestoredState, StatefulOperator
from mainstay.runtime.task import Task
from mainstay.runtime.windows import Windows
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.state.keygroups import range_of


@dataclass(frozen=True, slots=True)
class Assembler:
    """Builds the tasks of one worker in one attempt."""

    job: JobSpec
    attempt: Attempt
    lineage: str
    worker: int
    ports: Ports
    tuning: Tuning
    transmit: Transmit
    announce: Announce
    grant: Grant
    fail: Callable[[Exception], None]

    def build(self, spec: TaskSpec) -> Task:
        members = [self._member(spec, number) for number in range(len(spec.operators))]
        outputs = [self._output(spec, number) for number in range(len(spec.outputs))]
        tuning = self.tuning
        pace = Pace(self.ports.clock, tuning.slice_limit_s, tuning.first_piece_rows)
        counts = [Counts() for _ in members]
        self._wire(spec, members, outputs, pace, counts)
        inputs = self._inputs(spec)
        most, least = self.tuning.window_bytes, self.tuning.least_window_bytes
        gate = Gate(inputs, self.grant, Windows(most, least, len(inputs)))
        bounds = [member.operator.max_slice_rows for member in members]
        most = min([self.tuning.max_slice_rows, *(b for b in bounds if b is not None)])
        slices = SliceSize(self.tuning.slice_s, self.tuning.first_slice_rows, most)
        task = Task(
            spec,
            self.worker,
            self.attempt,
            self.ports,
            members,
            gate,
            outputs,
            self._markers(len(gate.channels)),
            slices,
            self.tuning.max_chain,
            pace,
        )
        task.counts = counts
        if self.job.is_unaligned:
            task.channels = TaskChannels(
                spec, self.worker, gate, outputs, task.replays, self.ports.background
            )
        return task

    def _member(self, spec: TaskSpec, number: int) -> StatefulOperator:
        groups = range_of(self.worker, spec.parallelism, self.job.max_parallelism)
        return StatefulOperator(
            spec.operators[number],
            self.worker,
            spec.parallelism,
            self.attempt,
            self.job.max_parallelism,
            groups,
            self.job.rocksdb,
            self.ports.clock,
        )

    def _inputs(self, spec: TaskSpec) -> list[InputChannel]:
        return [
            InputChannel(channel, edge.port)
            for edge in spec.inputs
            for channel, _ in edge.incoming(self.worker)
        ]

    def _output(self, spec: TaskSpec, number: int) -> Output:
        edge = spec.outputs[number]
        receiver = next(task for task in self.job.tasks if task.id == edge.receiver)
        may_overtake = self.job.is_unaligned and receiver.takes_channel_state
        announce = self.announce if may_overtake else None
        channels = [
            OutputChannel(channel, self.tuning.first_window_bytes, self.transmit, announce)
            for channel, _ in edge.outgoing(self.worker)
        ]
        partitioner = partitioner_for(edge, self.worker, self.job.max_parallelism)
        return Output(partitioner, channels, self.tuning.batch_rows)

    def _wire(
        self,
        spec: TaskSpec,
        members: list[StatefulOperator],
        outputs: list[Output],
        pace: Pace,
        counts: list[Counts],
    ) -> None:
        """Give every operator its ``out``: the next operators of the chain and the outputs."""
        targets: list[list[Emit]] = [[] for _ in members]
        for place, member in enumerate(members):
            if member.spec.upstream is not None:
                into = counts[place].taking(_into(member, place, pace))
                targets[member.spec.upstream].append(into)
        for edge, output in zip(spec.outputs, outputs, strict=True):
            targets[edge.sender_operator].append(output.emit)
        for member, emits, count in zip(members, targets, counts, strict=True):
            out = emits[0] if len(emits) == 1 else _to_all(emits)
            member.operator.out = count.emitting(out)
        head = members[0].operator
        if isinstance(head, SourceOperator) and len(targets[0]) == 1 and len(members) > 1:
            # The second of a chain is what the first hands its rows to.
            head.take_back = counts[1].giving_back(lambda: pace.give_back(1))

    def _markers(self, channels: int) -> MarkerHandler:
        return Tracker(channels) if self.job.mode == "at_least_once" else Aligner(channels)

    def open(self, task: Task) -> None:
        """Hand the operators their context; their state must be restored by now."""
        for member in task.members:
            member.operator.open(
                OperatorContext(
                    member.uid,
                    self.worker,
                    task.spec.parallelism,
                    self.attempt,
                    self.lineage,
                    self.ports.clock,
                    self.ports.background,
                    self.fail,
                    member.backend,
                    member.view,
                    member.lists,
                    OperatorFiles(self.ports.storage, member.uid, self.worker, self.attempt),
                )
            )

    def replay(self, task: Task, restored: Mapping[tuple[str, int], RestoredState]) -> None:
        """Have in-flight rows taken by their operators, before anything else."""
        parallelism, most = task.spec.parallelism, self.job.max_parallelism
        for place in reversed(range(len(task.members))):
            member = task.members[place]
            state = restored.get((member.uid, self.worker))
            units = () if state is None else state.in_flight
            for unit, batch in own_rows(units, self.worker, parallelism, member.groups, most):
                task.replays.add(place, unit.port, unit.edge, batch)


def _into(member: StatefulOperator, place: int, pace: Pace) -> Emit:
    process = pace.into(member.operator, place)
    return lambda batch: process(batch, 0)


def _to_all(emits: list[Emit]) -> Emit:
    def emit(batch: pa.RecordBatch) -> None:
        for each in emits:
            each(batch)

    return emit
