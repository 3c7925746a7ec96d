"""Assembly: from the specification of a task to its operators, gate and outputs on a worker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.messages import Attempt
from mainstay.runtime.operators.base import Emit, Operator, OperatorContext
from mainstay.runtime.operators.loop import LoopHead
from mainstay.runtime.operators.source import SourceOperator
from mainstay.runtime.ports import Ports
from mainstay.runtime.spec import JobSpec, TaskSpec, Tuning
from mainstay.runtime.worker.alignment import Aligner, MarkerHandler, Tracker
from mainstay.runtime.worker.channel_state import TaskChannels
from mainstay.runtime.worker.counting import Counts
from mainstay.runtime.worker.credit import Windows
from mainstay.runtime.worker.gate import Gate, InputChannel
from mainstay.runtime.worker.hot_keys import HotKeys
from mainstay.runtime.worker.inputs.base import TaskInput
from mainstay.runtime.worker.inputs.gated import GateInput
from mainstay.runtime.worker.inputs.loop import LoopInput
from mainstay.runtime.worker.inputs.source import SourceInput
from mainstay.runtime.worker.member import Member
from mainstay.runtime.worker.operator_chain import OperatorChain
from mainstay.runtime.worker.output import Output, OutputChannel
from mainstay.runtime.worker.pace import Pace
from mainstay.runtime.worker.parking import Parking
from mainstay.runtime.worker.partition import partitioner_for
from mainstay.runtime.worker.replays import own_rows
from mainstay.runtime.worker.reports import TaskReports
from mainstay.runtime.worker.routing import Router
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.runtime.worker.slices import SliceSize
from mainstay.runtime.worker.task import Task
from mainstay.snapshot.operator_files import OperatorFiles
from mainstay.snapshot.since import Since
from mainstay.state.keygroups import range_of
from mainstay.state.subtask import Owner


@dataclass(frozen=True, slots=True)
class Assembler:
    """Builds the tasks of one worker in one attempt."""

    job: JobSpec
    attempt: Attempt
    lineage: str
    since: Since
    retain: int
    worker: int
    ports: Ports
    tuning: Tuning
    router: Router
    files: SharedFiles
    fail: Callable[[Exception], None]

    def build(self, spec: TaskSpec) -> Task:
        members = [self._member(spec, number) for number in range(len(spec.operators))]
        outputs = [self._output(spec, number) for number in range(len(spec.outputs))]
        gate = self._gate(spec)
        reports = TaskReports(self.ports, self.attempt, spec.id, self.worker, members)
        chain = self._chain(spec, members, outputs, reports)
        chain.hot_keys = HotKeys.of(spec, self.worker)
        input = self._input(members[0].operator, chain, gate)
        task = Task(spec, self.ports, chain, input, reports, self.files, self.tuning.max_chain)
        if self.job.keeps_in_flight:
            task.channels = TaskChannels(
                spec, self.worker, gate, outputs, chain.replays, self.ports.background
            )
        senders = {id: sender for edge in spec.inputs for id, sender in edge.incoming(self.worker)}
        self.router.add_gate(gate, senders, task.on_overtaken)
        return task

    def _member(self, spec: TaskSpec, number: int) -> Member:
        operator = spec.operators[number]
        most = self.job.key_groups(operator)
        groups = range_of(self.worker, spec.parallelism, most)
        owner = Owner(
            operator.uid,
            self.worker,
            self.attempt,
            groups,
            most,
            self.lineage,
            self.since,
            self.retain,
        )
        return Member(operator, owner, spec.parallelism, self.job.backend, self.ports.clock)

    def _gate(self, spec: TaskSpec) -> Gate:
        channels = [
            InputChannel(channel, edge.port, edge.name._replace(subtask=sender).text)
            for edge in spec.inputs
            for channel, sender in edge.incoming(self.worker)
        ]
        most, least = self.tuning.window_bytes, self.tuning.least_window_bytes
        return Gate(channels, self.router.grant, Windows(most, least, len(channels)))

    def _input(self, head: Operator, chain: OperatorChain, gate: Gate) -> TaskInput:
        """The one place where the kind of a task's first operator matters."""
        clock = self.ports.clock
        match head:
            case SourceOperator():
                return SourceInput(head, chain, clock)
            case LoopHead():
                return LoopInput(head, chain, gate, self._markers(len(gate.channels)), clock)
            case _:
                return GateInput(head, chain, gate, self._markers(len(gate.channels)), clock)

    def _chain(
        self,
        spec: TaskSpec,
        members: list[Member],
        outputs: list[Output],
        reports: TaskReports,
    ) -> OperatorChain:
        tuning, clock = self.tuning, self.ports.clock
        pace = Pace(clock, tuning.slice_limit_s, tuning.first_piece_rows)
        counts = [Counts() for _ in members]
        self._wire(spec, members, outputs, pace, counts)
        bounds = [member.operator.max_slice_rows for member in members]
        most = min([tuning.max_slice_rows, *(b for b in bounds if b is not None)])
        target_s = max([tuning.slice_s, *(member.operator.slice_s for member in members)])
        slices = SliceSize(target_s, tuning.first_slice_rows, most)
        head, parking = members[0], None
        if head.keyed is not None and head.keyed.backend.is_remote:
            parking = Parking(head.operator, self.ports.background, clock)
        return OperatorChain(members, outputs, clock, pace, slices, reports.ended, counts, parking)

    def _output(self, spec: TaskSpec, number: int) -> Output:
        edge = spec.outputs[number]
        receiver = next(task for task in self.job.tasks if task.id == edge.receiver)
        may_overtake = self.job.keeps_in_flight and receiver.takes_channel_state
        announce = self.router.announce if may_overtake else None
        channels = []
        for channel, worker in edge.outgoing(self.worker):
            first_bytes, send = self.tuning.first_window_bytes, self.router.send
            sender = OutputChannel(channel, first_bytes, send, announce)
            self.router.add_sender(sender, worker)
            channels.append(sender)
        key_groups = self.job.key_groups(receiver.operators[0])
        partitioner = partitioner_for(edge, self.worker, key_groups)
        return Output(partitioner, channels, self.tuning.batch_rows, edge.sender_operator)

    def _wire(
        self,
        spec: TaskSpec,
        members: list[Member],
        outputs: list[Output],
        pace: Pace,
        counts: list[Counts],
    ) -> None:
        """Give every operator its ``out`` and its ``sides``: those operators of the chain and
        outputs that read them."""
        targets: dict[tuple[int, str], list[Emit]] = defaultdict(list)
        for place, member in enumerate(members):
            if member.spec.upstream is not None:
                into = counts[place].taking(_into(member, place, pace))
                targets[member.spec.upstream, member.spec.side].append(into)
        for edge, output in zip(spec.outputs, outputs, strict=True):
            targets[edge.sender_operator, edge.side].append(output.emit)
        for place, (member, count) in enumerate(zip(members, counts, strict=True)):
            member.operator.out = count.emitting(_to_all(targets[place, ""]))
            member.operator.sides = {
                side.name: count.emitting_aside(side.name, _to_all(targets[place, side.name]))
                for side in member.spec.sides
            }
        head = members[0].operator
        if isinstance(head, SourceOperator) and len(targets[0, ""]) == 1 and len(members) > 1:
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
                    member.row_context,
                    None if member.keyed is None else member.keyed.backend,
                    member.lists,
                    OperatorFiles(self.ports.storage, member.uid, self.worker, self.attempt),
                    member.owner.groups,
                    member.owner.max_parallelism,
                    self.ports.caller,
                    self.ports.calls,
                    member.broadcast,
                    self.ports.kernels,
                )
            )

    def replay(self, task: Task, restored: Mapping[tuple[str, int], RestoredState]) -> None:
        """Have in-flight rows taken by their operators, before anything else."""
        parallelism = task.spec.parallelism
        for place in reversed(range(len(task.members))):
            member = task.members[place]
            state = restored.get((member.uid, self.worker))
            units = () if state is None else state.in_flight
            own = (member.owner.groups, member.owner.max_parallelism)
            for unit, batch in own_rows(units, self.worker, parallelism, *own):
                task.chain.replays.add(place, unit.port, unit.edge, batch)


def _into(member: Member, place: int, pace: Pace) -> Emit:
    process = pace.into(member.operator, place)
    return lambda batch: process(batch, 0)


def _to_all(emits: list[Emit]) -> Emit:
    """Where nothing reads, rows end here."""
    if len(emits) == 1:
        return emits[0]

    def emit(batch: pa.RecordBatch) -> None:
        for each in emits:
            each(batch)

    return emit
