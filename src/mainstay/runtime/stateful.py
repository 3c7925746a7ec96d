"""One operator of one subtask together with its state: what is frozen, restored and compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mainstay.errors import MainstayError, ProtocolError, StateTypeError
from mainstay.runtime.expiry import Expiry
from mainstay.runtime.late import Late
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator, ProcessContext
from mainstay.runtime.ports import Clock
from mainstay.runtime.replays import InFlight
from mainstay.runtime.retry import Retry
from mainstay.runtime.spec import OperatorSpec
from mainstay.runtime.status import Problem
from mainstay.runtime.upgrading import StoredAs, Upgrader
from mainstay.snapshot.layout import operator_file_path, safe_name, segment_path, units_path
from mainstay.snapshot.manifest import OperatorUnits, SegmentRef, SubtaskState
from mainstay.snapshot.savepoint_files import PARQUET_SUFFIX, read_keyed
from mainstay.snapshot.statefile import StateTable, open_state_file
from mainstay.snapshot.statewriter import EncodedFile, StateFileWriter
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.units import is_large, store_units
from mainstay.state.backends.heap import HeapBackend
from mainstay.state.backends.rocksdb import Generation, RocksBackend
from mainstay.state.backends.rocksdb_checkpoint import read_checkpoint
from mainstay.state.backends.rocksdb_settings import RocksSettings
from mainstay.state.chain import Segment, SegmentChain
from mainstay.state.compaction import LoadedPart, Part, StoredPart, compacted, in_pieces
from mainstay.state.elements import without_expired
from mainstay.state.keygroups import HASH_ID, KeyGroupRange
from mainstay.state.merge import merge
from mainstay.state.operations import STORED_AS
from mainstay.state.operator import OperatorList
from mainstay.state.ttl_tables import Sweeper
from mainstay.state.whole import to_rows


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What a subtask of an operator starts from.

    ``rewrite`` says that the files belong to somebody else: the first epoch must not build on
    them. ``origin`` is where they are, if not in the job's own storage. ``stored_as`` says what
    they hold, where that is not what the job declares. ``in_flight`` are rows that had been sent to
    the operator, for all of its subtasks.
    """

    chain: tuple[SegmentRef, ...] = ()
    units: Mapping[str, OperatorUnits] = field(default_factory=dict)
    rewrite: bool = False
    origin: str | None = field(default=None, kw_only=True)
    stored_as: StoredAs | None = None
    in_flight: tuple[InFlight, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """An operator's part of an epoch, as it was when the marker passed.

    Where a part is late its units take the place of those that were copied.
    """

    segments: tuple[Segment, ...]
    units: Mapping[str, list[Any]]
    late: Late | None = None
    channels: Late | None = None
    """The rows on their way to and from the task, for the first operator of its chain."""

    @property
    def lates(self) -> tuple[Late, ...]:
        return tuple(late for late in (self.late, self.channels) if late is not None)

    @property
    def is_durable(self) -> bool:
        has_all = all(late.is_known for late in self.lates)
        return has_all and all(segment.is_durable for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Something to be done beside the loop; ``done`` and ``failed`` are called on it."""

    work: Callable[[], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]


class StatefulOperator:
    """An operator, its backend and its chain, in one subtask of one attempt."""

    def __init__(
        self,
        spec: OperatorSpec,
        subtask: int,
        parallelism: int,
        attempt: int,
        max_parallelism: int,
        groups: KeyGroupRange,
        rocksdb: RocksSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.spec = spec
        self.uid = spec.uid
        self.operator: Operator = spec.factory.build()
        self.groups = groups
        self.chain = SegmentChain()
        self.lists = {info.name: OperatorList(info) for info in spec.states if not info.is_keyed}
        self.view = ProcessContext(spec.uid, subtask, parallelism)
        if clock is not None:
            self.view.now_us = lambda: int(clock.wall() * 1_000_000)
        self.backend: HeapBackend | None = None
        self._subtask = subtask
        self._attempt = attempt
        self._max_parallelism = max_parallelism
        self._clock = clock
        self._compactions = 0
        self._compaction = Retry()
        self.rocksdb: RocksBackend | None = None
        self._spills = 0
        self._longest_due: int | None = None
        self._broken: Exception | None = None
        self.is_tended = False
        """Whether something is being done to the database beside the loop."""
        keyed = [info for info in spec.states if info.is_keyed]
        if spec.key is not None and rocksdb is None:
            self.backend = HeapBackend(keyed, spec.key.type, max_parallelism, self.view)
        elif spec.key is not None and rocksdb is not None:
            name = f"{safe_name(spec.uid)}-s{subtask}-a{attempt}"
            self.backend = self.rocksdb = RocksBackend(
                keyed, spec.key.type, max_parallelism, self.view, rocksdb, groups, name
            )
        self.expiry: Expiry | None = None
        if self.backend is not None and self.backend.expiring:
            self.expiry = Expiry(Sweeper(list(self.backend.expiring.values())))

    # ------------------------------------------------------------ snapshot

    def freeze(self, epoch: Epoch) -> Cut:
        """The synchronous part: O(1) for keyed state, a copy for operator state."""
        self._freeze_keyed(f"e{epoch}")
        units = {name: handle.copy_units() for name, handle in self.lists.items()}
        return Cut(self.chain.segments, units, self.operator.late())

    def _freeze_keyed(self, name: str) -> Segment | None:
        frozen = {} if self.backend is None else self.backend.freeze()
        if not frozen:
            return None
        segment = Segment(f"a{self._attempt}-s{self._subtask}-{name}", frozen=frozen)
        self.chain.add(segment)
        if self.rocksdb is not None:
            self.rocksdb.follow(segment.id)
        return segment

    def spill(self) -> Segment | None:
        """Freeze the active segment before its epoch ends, if it has grown too large.

        The chain holds it as any other, so the epoch that comes next holds it too.
        """
        if self.rocksdb is None or not self.rocksdb.is_large:
            return None
        self._spills += 1
        return self._freeze_keyed(f"p{self._spills}")

    def encode(self, segment: Segment) -> Iterator[list[StateTable]]:
        """Columns of a frozen segment, a slice at a time; the tables come last."""
        assert self.backend is not None
        try:
            for tables in self.backend.encode(segment.frozen):
                self._check_owned(tables)
                yield tables
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise StateTypeError(
                f"the state of operator {self.uid!r} cannot be stored: {error}"
            ) from error

    def _check_owned(self, tables: list[StateTable]) -> None:
        """What is written for a key that belongs to another subtask would never be read again."""
        for table in tables:
            if table.groups.min() < self.groups.first or table.groups.max() > self.groups.last:
                raise ProtocolError(
                    f"operator {self.uid!r}, subtask {self._subtask}: state {table.name!r} was "
                    "written for keys that belong to other subtasks. put_many() takes the keys of "
                    "the batch at hand, and no others."
                )

    def relieve(self) -> None:
        """Called after every slice of rows."""
        if self.backend is not None:
            self.backend.relieve()

    def written(self, segment: Segment, ref: SegmentRef, tables: list[StateTable]) -> None:
        """A segment has become durable."""
        segment.written(ref)
        if self.rocksdb is not None:
            self.rocksdb.durable(segment.id, tables)

    @property
    def is_full(self) -> bool:
        """Whether more changes would take more memory than there is for them."""
        return self.rocksdb is not None and self.rocksdb.is_full

    def leftovers(self, segment: Segment) -> list[Any]:
        """The parts of a frozen segment, for whoever lets go of them one at a time."""
        return [] if self.backend is None else self.backend.leftovers(segment.frozen)

    def write(self, storage: Storage, id: str, tables: list[StateTable]) -> SegmentRef:
        """Make the tables of a segment durable. Runs beside the loop."""
        writer = self._writer(is_base=False)
        for table in tables:
            pieces = in_pieces(table)
            if table.repeats:
                pieces = (merge([piece], to_base=False) for piece in pieces)
            writer.write(table.name, table.table.schema, pieces)
        return self._store(storage, id, writer.finish(), base=False)

    def _writer(self, *, is_base: bool) -> StateFileWriter:
        return StateFileWriter(
            is_base=is_base, max_parallelism=self._max_parallelism, hash_id=HASH_ID
        )

    def _store(self, storage: Storage, id: str, encoded: EncodedFile, base: bool) -> SegmentRef:
        path = segment_path(self.uid, self._subtask, self._attempt, id)
        storage.write(path, encoded.data)
        return SegmentRef(
            id, encoded.ref(path), self.groups.first, self.groups.last, encoded.rows, base
        )

    def acknowledged(self, cut: Cut) -> SubtaskState:
        """What the manifest says of this subtask, once the cut is durable."""
        chain = tuple(segment.ref for segment in cut.segments if segment.ref is not None)
        assert len(chain) == len(cut.segments), "a segment is acknowledged before it is durable"
        units = dict(cut.units)
        for late in cut.lates:
            units.update(late.units())
        encoded = {name: self.lists[name].encode(kept) for name, kept in units.items()}
        kept = () if cut.late is None else cut.late.kept()
        return SubtaskState(self._subtask, chain, encoded, kept)

    def has_large_units(self, state: SubtaskState) -> bool:
        """Whether units are to be stored in files, because they are many."""
        return not self._is_read_in_manifests and any(map(is_large, state.units.values()))

    @property
    def _is_read_in_manifests(self) -> bool:
        """Whether others read the units in manifests: splits, and handles of global sinks."""
        sink = self.spec.sink
        return self.spec.source is not None or (sink is not None and sink.is_global)

    def store_units(self, storage: Storage, state: SubtaskState, epoch: Epoch) -> SubtaskState:
        """Write units that are many to files. Runs beside the loop."""
        units = {
            name: store_units(storage, self._units_path(name, epoch), each)
            if is_large(each)
            else each
            for name, each in state.units.items()
        }
        return replace(state, units=units)

    def _units_path(self, name: str, epoch: Epoch) -> str:
        return units_path(self.uid, self._subtask, self._attempt, name, epoch)

    # ------------------------------------------------------------ compaction

    def next_compaction(self, longest: int) -> tuple[tuple[SegmentRef, ...], str, bool]:
        """The run to merge, the id of the result and whether it is a base; empty if none."""
        if self.rocksdb is not None:
            # In turn with what is written into the database: see upkeep.
            self._longest_due = longest
            return (), "", False
        refs, to_base = self.chain.begin_compaction(longest)
        return refs, self._next_compaction_id(refs), to_base

    def _next_compaction_id(self, refs: tuple[SegmentRef, ...]) -> str:
        if refs:
            self._compactions += 1
        return f"a{self._attempt}-s{self._subtask}-c{self._compactions}"

    def compacted(self, ref: SegmentRef) -> None:
        """A compaction is done, and its file durable."""
        self.chain.end_compaction(ref)
        self._compaction.succeeded()

    def compaction_failed(self, error: Exception) -> None:
        """The chain is whole without it, but grows: the next completed epoch tries again."""
        self.chain.cancel_compaction()
        self._compaction.failed(0.0 if self._clock is None else self._clock.monotonic(), error)

    def problem(self, now: float) -> Problem | None:
        """What keeps the chain from being compacted, if anything does."""
        if self._compaction.error is None:
            return None
        subject = f"operator {self.uid!r}, subtask {self._subtask}"
        return self._compaction.problem(subject, "has not been able to merge its state files", now)

    def upkeep(self, storage: Storage) -> Upkeep | None:
        """What a database needs done beside the loop, one thing at a time; None if nothing."""
        if self._broken is not None:
            raise MainstayError(
                f"operator {self.uid!r}, subtask {self._subtask}: the local database cannot be "
                f"written: {self._broken}. Is its disk full? RocksDB(directory=...) names another."
            ) from self._broken
        if self.rocksdb is None or self.is_tended:
            return None
        compaction = self._due_compaction(storage, self.rocksdb)
        if compaction is not None:
            return compaction
        generation = self.rocksdb.next_generation()
        return None if generation is None else self._absorption(self.rocksdb, generation)

    def _absorption(self, rocksdb: RocksBackend, generation: Generation) -> Upkeep:
        def done(_: Any) -> None:
            self.is_tended = False
            rocksdb.absorbed(generation)

        def failed(error: Exception) -> None:
            self._broken = error

        self.is_tended = True
        return Upkeep(lambda: rocksdb.absorb(generation), done, failed)

    def _due_compaction(self, storage: Storage, rocksdb: RocksBackend) -> Upkeep | None:
        """A compaction that was asked for. The base of a database's chain is a checkpoint of it.

        What the database does not have yet stays in the chain, and what it has is durable: so a
        run that reaches the oldest segment stands for just what the database holds.
        """
        if self._longest_due is None or self.chain.compacting:
            return None
        refs, to_base = self.chain.begin_compaction(self._longest_due, rocksdb.waiting)
        self._longest_due = None
        if not refs:
            return None
        id = self._next_compaction_id(refs)
        if to_base:
            return self._checkpoint(storage, rocksdb, id)
        return Upkeep(
            lambda: self.compact(storage, refs, id, False), self.compacted, self.compaction_failed
        )

    def _checkpoint(self, storage: Storage, rocksdb: RocksBackend, id: str) -> Upkeep:
        def work() -> SegmentRef:
            try:
                checkpoint = rocksdb.take_checkpoint()
            finally:
                # From here on the database may change again; the links are what is stored.
                self.is_tended = False
            return rocksdb.store_checkpoint(storage, checkpoint, self._database_path, id)

        self.is_tended = True
        return Upkeep(work, self.compacted, self.compaction_failed)

    def _database_path(self, name: str) -> str:
        return operator_file_path(self.uid, self._subtask, self._attempt, name)

    def compact(
        self, storage: Storage, refs: tuple[SegmentRef, ...], id: str, base: bool
    ) -> SegmentRef:
        """Merge segments into one file. Runs beside the loop."""
        parts = [_part(storage, ref) for ref in refs]
        writer = self._writer(is_base=base)
        schemas = {name: part.schema(name) for part in parts for name in part.states}
        for name, schema in schemas.items():
            if name in self.names:
                pieces = compacted(
                    parts,
                    name,
                    to_base=base,
                    max_parallelism=self._max_parallelism,
                    prepare=self._forgetting_expired(name),
                )
                writer.write(name, schema, pieces)
        return self._store(storage, id, writer.finish(), base)

    def _forgetting_expired(self, name: str) -> Callable[[StateTable], StateTable]:
        """Puts deletions in the place of what has expired, so that a base holds nothing of it."""
        info = next(info for info in self.spec.states if info.name == name)
        if info.ttl is None:
            return lambda table: table
        kind, horizon = STORED_AS[info.kind], self.view.now_us() - info.ttl.lifetime_us
        return lambda table: without_expired(table, kind, horizon)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(info.name for info in self.spec.states)

    # ------------------------------------------------------------ restore

    def restore_units(self, units: Mapping[str, OperatorUnits]) -> None:
        for name, stored in units.items():
            if name in self.lists:
                self.lists[name].restore(stored)

    def read(
        self, storage: Storage, restored: RestoredState, origin: Storage | None = None
    ) -> list[StateTable]:
        """Read what is to be restored, from ``origin`` if it is not in ``storage``.

        Runs beside the loop. A database takes it all in at once. What belongs to somebody else is
        stored anew there and then, and stands in the place of the chain.
        """
        place = storage if origin is None else origin
        read = self._reading(place, restored.stored_as)
        if self.rocksdb is None:
            return [table for ref in restored.chain for table in read(ref)]
        self.rocksdb.restore(
            place,
            restored.chain,
            read,
            by_file=not restored.rewrite,
            by_row=restored.stored_as is not None,
        )
        chain = restored.chain
        if restored.rewrite:
            id = f"a{self._attempt}-s{self._subtask}-c0"
            checkpoint = self.rocksdb.take_checkpoint()
            chain = (self.rocksdb.store_checkpoint(storage, checkpoint, self._database_path, id),)
        self.chain = SegmentChain.restored(chain)
        return []

    def _reading(
        self, place: Storage, stored_as: StoredAs | None
    ) -> Callable[[SegmentRef], Iterable[StateTable]]:
        """How a segment is read: as it is, or as rows of the states that the job declares now."""
        if stored_as is None:
            return lambda ref: read_segment(place, ref)
        upgrader = Upgrader(
            stored_as, self.spec, self.groups, self._max_parallelism, self.view.now_us()
        )

        def read(ref: SegmentRef) -> Iterator[StateTable]:
            for table in read_segment(place, ref):
                rows = upgrader.rows(table)
                if rows is not None:
                    yield rows

        return read

    def restore_tables(self, tables: list[StateTable], restored: RestoredState) -> Iterator[None]:
        """Apply what was read, a slice at a time."""
        assert self.backend is not None
        if self.rocksdb is not None:
            return
        for table in tables:
            if table.name in self.names:
                yield from self.backend.apply(table)
        if restored.rewrite:
            self.backend.mark_all_changed()
        else:
            self.chain = SegmentChain.restored(restored.chain)

    def close(self) -> None:
        """The job ends in good order."""
        self.operator.close()

    def release(self) -> None:
        """Give back what is held."""
        self.operator.release()
        if self.expiry is not None:
            self.expiry.stop()
        if self.rocksdb is not None:
            self.rocksdb.close()


def _part(storage: Storage, ref: SegmentRef) -> Part:
    """A segment for a compaction: what is stored by key-group is read by key-group."""
    if ref.parts or ref.file.path.endswith(PARQUET_SUFFIX):
        return LoadedPart(read_segment(storage, ref))
    return StoredPart(open_state_file(storage, ref.file), ref)


def read_segment(storage: Storage, ref: SegmentRef) -> Iterable[StateTable]:
    """The rows of a segment that may be applied, checked against the manifest.

    The rows of a state come in order, in tables of which each fits into arrays.
    """
    for table in _read_segment(storage, ref):
        yield from table.in_arrays()


def _read_segment(storage: Storage, ref: SegmentRef) -> Iterable[StateTable]:
    if ref.parts:
        return read_checkpoint(storage, ref)
    if ref.file.path.endswith(PARQUET_SUFFIX):
        return map(to_rows, read_keyed(storage, ref.file, ref.first_group, ref.last_group))
    file = open_state_file(storage, ref.file)
    return [file.read(name, ref.first_group, ref.last_group) for name in file.states]


def read_chain(storage: Storage, chain: tuple[SegmentRef, ...]) -> list[StateTable]:
    """The rows of a whole chain, in the order they must be applied."""
    return [table for ref in chain for table in read_segment(storage, ref)]
