"""A member of a task: one operator of one subtask together with its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mainstay.runtime.deferred import Late
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.ports import Clock
from mainstay.runtime.retry import Retry
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.spec import OperatorSpec
from mainstay.runtime.status import Problem
from mainstay.runtime.upgrading import Upgrader
from mainstay.runtime.worker.channel_state import encoded_rows
from mainstay.runtime.worker.expiry import Expiry
from mainstay.snapshot.layout import units_path
from mainstay.snapshot.manifest import OperatorUnits, SegmentRef, SubtaskState
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.units import is_large, store_units
from mainstay.state.backends.contract import BackendSettings, KeyedBackend, ReadSegment
from mainstay.state.broadcast import BroadcastMap
from mainstay.state.chain import Segment
from mainstay.state.kinds import BROADCAST_MAP, OPERATOR_LIST
from mainstay.state.operator import OperatorList
from mainstay.state.segments import read_segment, read_undropped
from mainstay.state.subtask import KeyedSubtask, Owner, Restored
from mainstay.state.ttl_tables import Sweeper


@dataclass(frozen=True, slots=True)
class Cut:
    """An operator's part of an epoch, as it was when the marker passed.

    Where a part is late its units take the place of those that were copied.
    """

    segments: tuple[Segment, ...]
    units: Mapping[str, list[Any]]
    late: Late | None = None
    channels: Late | None = None
    """In-flight rows to and from the task, for the first operator of its chain."""

    @property
    def lates(self) -> tuple[Late, ...]:
        return tuple(late for late in (self.late, self.channels) if late is not None)

    @property
    def is_durable(self) -> bool:
        has_all = all(late.is_known for late in self.lates)
        return has_all and all(segment.is_durable for segment in self.segments)


def _wall_clock(clock: Clock, context: ProcessContext) -> Callable[[], int]:
    """The time in microseconds, which stands still where an operator holds it."""

    def now_us() -> int:
        held = context.held_us
        return int(clock.wall() * 1_000_000) if held is None else held

    return now_us


class Member:
    """An operator and its state, in one subtask of one attempt. ``keyed`` is None without a key."""

    def __init__(
        self,
        spec: OperatorSpec,
        owner: Owner,
        parallelism: int,
        backend: BackendSettings,
        clock: Clock | None = None,
    ) -> None:
        self.spec = spec
        self.uid = spec.uid
        self.owner = owner
        self.operator: Operator = spec.factory.build()
        kept = [info for info in spec.states if not info.is_keyed]
        self.lists = {each.name: OperatorList(each) for each in kept if each.kind == OPERATOR_LIST}
        self.broadcast = {
            each.name: BroadcastMap(each) for each in kept if each.kind == BROADCAST_MAP
        }
        self._units: dict[str, OperatorList | BroadcastMap] = {**self.lists, **self.broadcast}
        self.row_context = ProcessContext(spec.uid, owner.subtask, parallelism)
        if clock is not None:
            self.row_context.now_us = _wall_clock(clock, self.row_context)
        self._clock = clock
        self._compaction = Retry()
        self._backend = Retry()
        self.keyed = self._keyed(backend)
        self.expiry: Expiry | None = None
        if self.keyed is not None and self.keyed.backend.expiring:
            self.expiry = Expiry(Sweeper(list(self.keyed.backend.expiring.values())))

    def _keyed(self, backend: BackendSettings) -> KeyedSubtask | None:
        spec = self.spec
        if spec.key is None:
            return None
        states = tuple(info for info in spec.states if info.is_keyed)
        keyed = KeyedSubtask(self.owner, states, spec.key.type, self.row_context, backend)
        keyed.on_compacted = self._compaction.succeeded
        keyed.on_compaction_failed = self._compaction_failed
        return keyed

    def relieve(self) -> None:
        """Called after every slice of rows."""
        if self.keyed is not None:
            self.keyed.backend.relieve()

    # ------------------------------------------------------------ snapshots

    def freeze(self, epoch: Epoch) -> Cut:
        """The synchronous part: O(1) for keyed state, a copy for operator state."""
        segments: tuple[Segment, ...] = ()
        if self.keyed is not None:
            segments = self.keyed.cut(epoch)
        units = {name: handle.copy_units() for name, handle in self._units.items()}
        return Cut(segments, units, self.operator.late())

    def acknowledged(self, cut: Cut) -> SubtaskState:
        """What the manifest says of this subtask, once the cut is durable."""
        chain = tuple(segment.ref for segment in cut.segments if segment.ref is not None)
        assert len(chain) == len(cut.segments), "a segment is acknowledged before it is durable"
        units = dict(cut.units)
        if cut.late is not None:
            units.update(cut.late.units())
        encoded = {name: self._units[name].encode(kept) for name, kept in units.items()}
        if cut.channels is not None:
            encoded.update(encoded_rows(cut.channels.units()))
        kept = () if cut.late is None else cut.late.kept()
        return SubtaskState(self.owner.subtask, chain, encoded, kept)

    def has_large_units(self, state: SubtaskState) -> bool:
        """Whether units are to be stored in files, because they are many."""
        return not self._is_read_in_manifests and any(map(is_large, state.units.values()))

    @property
    def _is_read_in_manifests(self) -> bool:
        """Whether others read the units in manifests: splits, and handles of global sinks."""
        sink = self.spec.sink
        return self.spec.source is not None or (sink is not None and sink.is_global)

    def store_units(self, storage: Storage, state: SubtaskState, epoch: Epoch) -> SubtaskState:
        """Write units that are many to files. Runs in the background."""
        units = {
            name: store_units(storage, self._units_path(name, epoch), each)
            if is_large(each)
            else each
            for name, each in state.units.items()
        }
        return replace(state, units=units)

    def _units_path(self, name: str, epoch: Epoch) -> str:
        return units_path(self.uid, self.owner.subtask, self.owner.attempt, name, epoch)

    def on_complete(self, epoch: Epoch, saved: Epoch | None, longest_chain: int) -> None:
        """The epoch, and every one before it, is committed in the log."""
        self.operator.on_complete(epoch)
        if self.keyed is not None:
            if saved is not None:
                self.keyed.backend.on_held(epoch)
            self.keyed.backend.on_complete(epoch if saved is None else saved)
            self.keyed.compact(longest_chain)

    def on_abort(self, epoch: Epoch) -> None:
        """The epoch was given up; what it was to hold goes with the next one."""
        self.operator.on_abort(epoch)
        if self.keyed is not None:
            self.keyed.backend.on_abort(epoch)

    def _compaction_failed(self, error: Exception) -> None:
        self._compaction.failed(0.0 if self._clock is None else self._clock.monotonic(), error)

    def problem(self, now: float) -> Problem | None:
        """What keeps the operator from its work, or its files from being merged."""
        problem = self.operator.problem(now)
        if problem is None and self.keyed is not None:
            problem = self._backend_problem(self.keyed.backend, now)
        if problem is not None or self._compaction.error is None:
            return problem
        did = "has not been able to merge its state files"
        return self._compaction.problem(str(self.owner), did, now)

    @property
    def holds_epochs(self) -> bool:
        """Whether epochs wait for a database that is in trouble."""
        backend = None if self.keyed is None else self.keyed.backend
        return backend is not None and backend.holds_epochs and backend.trouble is not None

    def _backend_problem(self, backend: KeyedBackend, now: float) -> Problem | None:
        trouble = backend.trouble
        if trouble is None:
            if self._backend.error is not None:
                self._backend.succeeded()
            return self._doubts(backend, now)
        self._backend.began(now)
        self._backend.error = trouble
        return self._backend.problem(str(self.owner), "cannot reach the database of its state", now)

    def _doubts(self, backend: KeyedBackend, now: float) -> Problem | None:
        """What is told of transactions that a database holds in doubt for long."""
        found = backend.in_doubt(now)
        if found is None:
            return None
        what = f"has had prepared transactions in doubt ({len(found.ends)})"
        return Problem(f"operator {self.uid!r}", what, found.told, found.oldest_s)

    # ------------------------------------------------------------ restore

    def restore_units(self, units: Mapping[str, OperatorUnits]) -> None:
        for name, stored in units.items():
            if name in self._units:
                self._units[name].restore(stored)

    def is_read_from(self, restored: RestoredState) -> bool:
        """Whether there is anything to read. Where all subtasks share the tables of a database,
        each of them moves on to new ones, those that get no rows as well."""
        if restored.chain:
            return True
        return restored.rewrite and self.keyed is not None and self.keyed.backend.has_own_bases

    def read(
        self, storage: Storage, restored: RestoredState, origin: Storage | None = None
    ) -> Restored:
        """Read what is to be restored, from ``origin`` if it is not in ``storage``.

        Runs in the background.
        """
        assert self.keyed is not None
        place = storage if origin is None else origin
        return self.keyed.read(
            storage,
            place,
            restored.chain,
            self._reading(place, restored),
            is_foreign=restored.rewrite,
            is_converted=restored.stored_as is not None,
        )

    def _reading(self, place: Storage, restored: RestoredState) -> ReadSegment:
        """How a segment is read: as it is, or as rows of the states that the job declares now."""
        read_stored: ReadSegment = partial(read_segment, place)
        if restored.stored_as is None:
            return read_stored
        upgrader = Upgrader(
            restored.stored_as,
            self.spec,
            self.owner.groups,
            self.owner.max_parallelism,
            self.row_context.now_us(),
        )

        if upgrader.moves_keys:
            read_stored = read_undropped(place, restored.chain)

        def read(ref: SegmentRef) -> Iterator[StateTable]:
            for table in read_stored(ref):
                rows = upgrader.rows(table)
                if rows is not None:
                    yield rows

        return read

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """The job ends in good order."""
        try:
            self.operator.close()
        finally:
            if self.keyed is not None:
                self.keyed.backend.end()

    def release(self) -> None:
        """Give back what is held."""
        try:
            self.operator.release()
        finally:
            if self.expiry is not None:
                self.expiry.stop()
            if self.keyed is not None:
                self.keyed.backend.close()
