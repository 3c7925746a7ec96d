"""The keyed state of one subtask: a backend, and the chain of segments that it has handed out.

This is the same for all backends: how segments are named, written, compacted and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from mainstay.errors import MainstayError, ProtocolError, StateTypeError, retold
from mainstay.snapshot.drops import joined
from mainstay.snapshot.layout import operator_file_path, safe_name, segment_path
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.shared import NewFile, Stored, store_alone
from mainstay.snapshot.since import NOTHING_YET, Since
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.statewriter import EncodedFile, StateFileWriter
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.contract import (
    BackendSettings,
    Base,
    Place,
    ReadSegment,
    Restore,
    Work,
)
from mainstay.state.by_key import by_key
from mainstay.state.chain import Segment, SegmentChain
from mainstay.state.compaction import compacted, in_pieces
from mainstay.state.elements import without_expired
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.keygroups import HASH_ID, KeyGroupRange
from mainstay.state.merge import merge
from mainstay.state.segments import check_readable, part_of
from mainstay.state.values import ValueType


@dataclass(frozen=True, slots=True)
class Owner:
    """Which subtask of which operator, in which attempt: it names files and errors."""

    uid: str
    subtask: int
    attempt: int
    groups: KeyGroupRange
    max_parallelism: int
    lineage: str = ""
    since: Since = NOTHING_YET
    retain: int = 1

    @property
    def prefix(self) -> str:
        """What the names of its segments begin with."""
        return f"a{self.attempt}-s{self.subtask}"

    def segment_path(self, id: str) -> str:
        return segment_path(self.uid, self.subtask, self.attempt, id)

    def file_path(self, name: str) -> str:
        return operator_file_path(self.uid, self.subtask, self.attempt, name)

    def __str__(self) -> str:
        return f"operator {self.uid!r}, subtask {self.subtask}"


class KeyedSubtask:
    """A backend and its chain, in one subtask of one attempt."""

    def __init__(
        self,
        owner: Owner,
        states: tuple[StateInfo, ...],
        key: ValueType,
        context: KeyContext,
        settings: BackendSettings,
    ) -> None:
        self.owner = owner
        self.states = {info.name: info for info in states}
        self.chain = SegmentChain()
        self._context = context
        name = f"{safe_name(owner.uid)}-s{owner.subtask}-a{owner.attempt}"
        self.backend = settings.open(
            Place(
                states,
                key,
                owner.groups,
                owner.max_parallelism,
                context,
                name,
                owner.uid,
                owner.lineage,
                owner.attempt,
                owner.since,
                owner.retain,
            )
        )
        self._spills = 0
        self._compactions = 0
        self._longest_due: int | None = None
        self.on_compacted: Callable[[], None] = lambda: None
        self.on_compaction_failed: Callable[[Exception], None] = lambda error: None

    # ------------------------------------------------------------ snapshots

    def freeze(self, name: str) -> Segment | None:
        """Freeze what has changed as a segment of the chain; None where nothing has."""
        frozen = self.backend.freeze()
        if not frozen:
            return None
        segment = Segment(f"{self.owner.prefix}-{name}", frozen=frozen)
        self.chain.add(segment)
        self.backend.frozen_as(segment.id)
        return segment

    def cut(self, epoch: int) -> tuple[Segment, ...]:
        """Freeze what has changed for an epoch; the chain that the epoch consists of."""
        self.freeze(f"e{epoch}")
        self.backend.on_cut(epoch)
        return self.chain.segments

    def spill(self) -> Segment | None:
        """Freeze the active segment before its epoch ends, if it has grown too large.

        The chain holds it as any other, so the epoch that comes next holds it too.
        """
        if not self.backend.is_large:
            return None
        self._spills += 1
        return self.freeze(f"p{self._spills}")

    def encode(self, segment: Segment) -> Iterator[list[StateTable]]:
        """Columns of a frozen segment, a slice at a time; the tables come last."""
        try:
            for tables in self.backend.encode(segment.frozen):
                self._check_owned(tables)
                yield tables
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise StateTypeError(
                f"the state of operator {self.owner.uid!r} cannot be stored: {error}"
            ) from error

    def _check_owned(self, tables: list[StateTable]) -> None:
        """What is written for a key that belongs to another subtask would never be read again."""
        groups = self.owner.groups
        for table in tables:
            if len(table.groups) and (
                table.groups.min() < groups.first or table.groups.max() > groups.last
            ):
                raise ProtocolError(
                    f"{self.owner}: state {table.name!r} was written for keys that belong to other "
                    "subtasks. put_many() takes the keys of its batch, and no others."
                )

    def write(self, storage: Storage, id: str, tables: list[StateTable]) -> SegmentRef:
        """Make the tables of a segment durable, in a file of its own. Runs in the background."""
        return self.ref(id, store_alone(storage, self.new_file(id, tables)))

    def new_file(self, id: str, tables: list[StateTable]) -> NewFile:
        """The file of a segment; it is made in the background."""
        return NewFile(self.owner.segment_path(id), lambda: self._encoded(tables))

    def ref(self, id: str, stored: Stored, *, is_base: bool = False) -> SegmentRef:
        """How a manifest names a segment that is stored."""
        groups = self.owner.groups
        return SegmentRef(id, stored.file, groups.first, groups.last, stored.rows, is_base)

    def _encoded(self, tables: list[StateTable]) -> EncodedFile:
        writer = self._writer(is_base=False)
        for table in tables:
            pieces = in_pieces(table)
            if table.repeats:
                pieces = (merge([piece], to_base=False) for piece in pieces)
            writer.write(table.name, table.table.schema, map(by_key, pieces), table.drops)
        return writer.finish()

    def _writer(self, *, is_base: bool) -> StateFileWriter:
        return StateFileWriter(
            is_base=is_base, max_parallelism=self.owner.max_parallelism, hash_id=HASH_ID
        )

    def written(self, segment: Segment, ref: SegmentRef, tables: list[StateTable]) -> None:
        """A segment has become durable."""
        segment.written(ref)
        self.backend.on_durable(segment.id, tables)

    # ------------------------------------------------------------ maintenance

    def compact(self, longest: int) -> None:
        """Have ``next_work`` merge segments, if there are more than ``longest``."""
        self._longest_due = longest

    def next_work(self, storage: Storage) -> Work | None:
        """What is to be done in the background now; None if nothing."""
        # A base that only names what is in a database disturbs nobody there.
        is_free = not self.backend.is_busy or self.backend.has_own_bases
        if self._longest_due is not None and not self.chain.compacting and is_free:
            work = self._compaction(storage)
            if work is not None:
                return work
        try:
            return self.backend.next_work()
        except MainstayError as error:
            raise retold(self.owner, error) from error

    def _compaction(self, storage: Storage) -> Work | None:
        """The compaction that is due; None if none is, or the backend makes the base itself."""
        assert self._longest_due is not None
        backend = self.backend
        refs, to_base = self.chain.begin_compaction(
            self._longest_due, backend.not_absorbed, is_whole=backend.has_own_bases
        )
        self._longest_due = None
        if not refs:
            return None
        self._compactions += 1
        id = f"{self.owner.prefix}-c{self._compactions}"
        if to_base:
            base = Base(id, storage, self.owner.file_path, self._compacted, self._not_compacted)
            if self.backend.begin_base(base):
                return None
        return Work(
            lambda: self.merged(storage, refs, id, to_base), self._compacted, self._not_compacted
        )

    def merged(
        self, storage: Storage, refs: tuple[SegmentRef, ...], id: str, base: bool
    ) -> SegmentRef:
        """Merge segments into one file. Runs in the background."""
        parts = [part_of(storage, ref) for ref in refs]
        writer = self._writer(is_base=base)
        schemas = {name: part.schema(name) for part in parts for name in part.states}
        for name, schema in schemas.items():
            if name in self.states:
                pieces = compacted(
                    parts,
                    name,
                    to_base=base,
                    max_parallelism=self.owner.max_parallelism,
                    prepare=self._forgetting_expired(self.states[name]),
                )
                mine = [part for part in parts if name in part.states]
                # Not those of the pieces: a key-group may be dropped in which there is no row.
                drops = () if base else joined(drop for part in mine for drop in part.drops(name))
                writer.write(name, schema, map(by_key, pieces), drops)
        file = NewFile(self.owner.segment_path(id), writer.finish)
        return self.ref(id, store_alone(storage, file), is_base=base)

    def _forgetting_expired(self, info: StateInfo) -> Callable[[StateTable], StateTable]:
        """Puts deletions in the place of what has expired, so that a base holds nothing of it."""
        if info.ttl is None:
            return lambda table: table
        stored_as, horizon = info.kind.stored_as, self._context.now_us() - info.ttl.lifetime_us
        return lambda table: without_expired(table, stored_as, horizon)

    def _compacted(self, ref: SegmentRef) -> None:
        self.chain.end_compaction(ref)
        self.on_compacted()

    def _not_compacted(self, error: Exception) -> None:
        """The chain is whole without it, but grows: the next completed epoch tries again."""
        self.chain.cancel_compaction()
        self.on_compaction_failed(error)

    # ------------------------------------------------------------ restore

    def read(
        self,
        storage: Storage,
        place: Storage,
        chain: tuple[SegmentRef, ...],
        read: ReadSegment,
        *,
        is_foreign: bool,
        is_converted: bool,
    ) -> Restored:
        """Read a chain that lies at ``place``. Runs in the background, before anything else.

        What is foreign belongs to somebody else: the next epoch must not build on its files. A
        backend that cannot hand everything out again stores it as a base there and then.
        """
        start = Restore(place, chain, read, not is_foreign, is_converted)
        tables = self.backend.restore(start)
        if is_foreign or not self.backend.has_own_bases:
            check_readable(place, chain)
        if is_foreign:
            base = self.backend.base(f"{self.owner.prefix}-c0", storage, self.owner.file_path)
            return Restored(tables, () if base is None else (base,), is_whole=base is not None)
        return Restored(tables, chain, is_whole=True)

    def apply(self, restored: Restored) -> Iterator[None]:
        """Take over what was read, a slice at a time."""
        for table in restored.tables:
            if table.name in self.states:
                yield from self.backend.apply(table)
        if restored.is_whole:
            self.chain = SegmentChain.restored(restored.chain)
        else:
            self.backend.mark_all_changed(restored.tables)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was read: rows to apply, and the chain to go on with; not whole where there is none."""

    tables: list[StateTable]
    chain: tuple[SegmentRef, ...]
    is_whole: bool
