"""Durability: the asynchronous part of a task's snapshots.

Segments are turned into columns in slices on the loop (it holds the interpreter, so it must be
short and often) and written in the background. A segment is written once; an epoch is acknowledged
when every segment of its cut is durable, every deferred part of it is known, every backend has
voted for it, and operator state that is too large for the manifest is stored. A segment whose write
failed stays in the chain and is written with the next epoch, so a failed epoch loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mainstay.runtime.messages import Epoch, Figures
from mainstay.runtime.ports import Ports
from mainstay.runtime.worker.member import Cut, Member
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.snapshot.manifest import SubtaskState
from mainstay.snapshot.shared import Stored
from mainstay.snapshot.statefile import StateTable
from mainstay.state.chain import Segment
from mainstay.state.subtask import KeyedSubtask

Acknowledged = Callable[[Epoch, dict[str, SubtaskState], Figures], None]
Declined = Callable[[Epoch, str], None]


@dataclass(slots=True)
class UnackedCut:
    """The cut of one epoch of this task, until it is acknowledged."""

    epoch: Epoch
    cuts: list[tuple[Member, Cut]]
    alignment_s: float
    sync_s: float
    started: float
    start_delay_s: float = 0.0
    size_bytes: int = 0
    awaits_votes: bool = False
    """Whether nothing but a vote is missing, of which nobody tells."""

    @property
    def is_durable(self) -> bool:
        return all(cut.is_durable for _, cut in self.cuts)

    @property
    def is_voted(self) -> bool:
        keyed = (member.keyed for member, _ in self.cuts)
        return all(each is None or each.backend.has_voted(self.epoch) for each in keyed)

    @property
    def failure(self) -> str | None:
        """Why a deferred part of it was given up; None if none was."""
        failures = (late.failure for _, cut in self.cuts for late in cut.lates)
        return next((failure for failure in failures if failure is not None), None)


class Durability:
    """Makes the cuts of one task durable, in the order they were taken."""

    def __init__(
        self, ports: Ports, files: SharedFiles, acknowledged: Acknowledged, declined: Declined
    ) -> None:
        self._ports = ports
        self._files = files
        self._acknowledged = acknowledged
        self._declined = declined
        self._pending: list[UnackedCut] = []
        self._queue: deque[tuple[Member, Segment]] = deque()
        self._encoding: Iterator[list[StateTable]] | None = None
        self._taken: set[tuple[str, str]] = set()
        self._leftovers: list[Any] = []
        self._early_bytes = 0

    @property
    def _waits_for_others(self) -> bool:
        return any(
            pending.awaits_votes or any(cut.lates for _, cut in pending.cuts)
            for pending in self._pending
        )

    def begin(self, pending: UnackedCut) -> None:
        """Take over a cut; its undurable segments are queued unless they were taken before."""
        self._pending.append(pending)
        pending.size_bytes, self._early_bytes = self._early_bytes, 0
        for operator, cut in pending.cuts:
            for segment in cut.segments:
                place = (operator.uid, segment.id)
                if not segment.is_durable and place not in self._taken:
                    self._taken.add(place)
                    self._queue.append((operator, segment))
        self._acknowledge_durable()

    def write_early(self, operator: Member, segment: Segment) -> None:
        """Make a segment durable before any cut holds it."""
        self._taken.add((operator.uid, segment.id))
        self._queue.append((operator, segment))

    def is_writing(self, operator: Member) -> bool:
        """Whether a segment of this operator is being written."""
        return any(uid == operator.uid for uid, _ in self._taken)

    def maintain(self, subtasks: list[KeyedSubtask]) -> None:
        """Start what backends and chains need done in the background."""
        for keyed in subtasks:
            while (work := keyed.next_work(self._ports.storage)) is not None:
                self._ports.background.submit(work.run, work.done, work.failed)

    def step(self) -> bool:
        """Convert one slice, or free one part; False when there is nothing to do."""
        if self._waits_for_others:
            self._look_again()
        if self._leftovers:
            # Freeing a large segment in one go would hold the loop up.
            self._leftovers.pop()
            return True
        if not self._queue:
            return False
        operator, segment = self._queue[0]
        if self._encoding is None:
            assert operator.keyed is not None
            self._encoding = operator.keyed.encode(segment)
        tables = next(self._encoding)
        if tables:
            self._encoding = None
            self._queue.popleft()
            self._write(operator, segment, tables)
        return True

    def _write(self, operator: Member, segment: Segment, tables: list[StateTable]) -> None:
        place = (operator.uid, segment.id)
        keyed = operator.keyed
        assert keyed is not None

        def done(stored: Stored) -> None:
            ref = keyed.ref(segment.id, stored)
            self._taken.discard(place)
            self._leftovers.extend(keyed.backend.leftovers(segment.frozen))
            keyed.written(segment, ref, tables)
            self._count(segment, ref.file.size_bytes)
            self._acknowledge_durable()

        def failed(error: Exception) -> None:
            self._taken.discard(place)
            self._give_up(segment, f"{operator.uid!r} could not be stored: {error}")

        size_bytes = sum(table.table.nbytes for table in tables)
        self._files.store(keyed.new_file(segment.id, tables), size_bytes, done, failed)

    def _count(self, segment: Segment, size_bytes: int) -> None:
        for pending in self._pending:
            if any(segment in cut.segments for _, cut in pending.cuts):
                pending.size_bytes += size_bytes
                return
        self._early_bytes += size_bytes

    def _acknowledge_durable(self) -> None:
        for pending in [pending for pending in self._pending if pending.is_durable]:
            pending.awaits_votes = not pending.is_voted
            if pending.awaits_votes:
                continue
            self._pending.remove(pending)
            states = {op.uid: op.acknowledged(cut) for op, cut in pending.cuts}
            large = [op for op, _ in pending.cuts if op.has_large_units(states[op.uid])]
            if large:
                self._store_units(pending, states, large)
            else:
                self._acknowledge(pending, states)

    def _acknowledge(self, pending: UnackedCut, states: dict[str, SubtaskState]) -> None:
        async_s = self._ports.clock.monotonic() - pending.started
        # Operator state is stored again with every epoch, in the manifest or in files.
        units = (each for state in states.values() for each in state.units.values())
        pending.size_bytes += sum(each.size_bytes for each in units if each.count)
        in_flight = sum(late.rows for _, cut in pending.cuts for late in cut.lates)
        figures = Figures(
            pending.alignment_s,
            pending.sync_s,
            async_s,
            pending.size_bytes,
            in_flight,
            pending.start_delay_s,
        )
        self._name_files(states)
        self._acknowledged(pending.epoch, states, figures)

    def _name_files(self, states: dict[str, SubtaskState]) -> None:
        if self._ports.state_files is not None:
            for uid, state in states.items():
                self._ports.state_files.named(uid, (file.path for file in state.files()))

    def _store_units(
        self, pending: UnackedCut, states: dict[str, SubtaskState], large: list[Member]
    ) -> None:
        storage = self._ports.storage

        def work() -> dict[str, SubtaskState]:
            return {op.uid: op.store_units(storage, states[op.uid], pending.epoch) for op in large}

        def done(stored: dict[str, SubtaskState]) -> None:
            self._acknowledge(pending, {**states, **stored})

        def failed(error: Exception) -> None:
            self._declined(pending.epoch, f"operator state could not be stored: {error}")

        self._ports.background.submit(work, done, failed)

    def _look_again(self) -> None:
        for pending in list(self._pending):
            if (reason := pending.failure) is not None:
                self._pending.remove(pending)
                self._declined(pending.epoch, reason)
        self._acknowledge_durable()

    def _give_up(self, segment: Segment, reason: str) -> None:
        hopeless = [
            pending
            for pending in self._pending
            if any(segment in cut.segments for _, cut in pending.cuts)
        ]
        for pending in hopeless:
            self._pending.remove(pending)
            self._declined(pending.epoch, reason)

    def abort(self, epoch: Epoch) -> None:
        """Nobody waits for this epoch any more; its segments are written all the same."""
        self._pending = [pending for pending in self._pending if pending.epoch != epoch]
