"""One operator of one subtask together with its state: what is frozen, restored and compacted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mainstay.errors import ProtocolError, StateTypeError
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator, ProcessContext
from mainstay.runtime.spec import OperatorSpec
from mainstay.snapshot.layout import segment_path
from mainstay.snapshot.manifest import FileRef, OperatorUnits, SegmentRef, SubtaskState
from mainstay.snapshot.statefile import StateTable, open_state_file
from mainstay.snapshot.statewriter import encode_state_file
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.heap import HeapBackend
from mainstay.state.chain import Segment, SegmentChain
from mainstay.state.keygroups import HASH_ID, KeyGroupRange
from mainstay.state.merge import merge
from mainstay.state.operator import OperatorList


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What a subtask of an operator starts from.

    ``rewrite`` says that the files belong to somebody else: the first epoch must not build on
    them.
    """

    chain: tuple[SegmentRef, ...] = ()
    units: Mapping[str, OperatorUnits] = field(default_factory=dict)
    rewrite: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """An operator's part of an epoch, as it was when the marker passed."""

    segments: tuple[Segment, ...]
    units: Mapping[str, list[Any]]


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
    ) -> None:
        self.spec = spec
        self.uid = spec.uid
        self.operator: Operator = spec.factory.build()
        self.groups = groups
        self.chain = SegmentChain()
        self.lists = {info.name: OperatorList(info) for info in spec.states if not info.is_keyed}
        self.view = ProcessContext(spec.uid, subtask, parallelism)
        self.backend: HeapBackend | None = None
        self._subtask = subtask
        self._attempt = attempt
        self._max_parallelism = max_parallelism
        self._compactions = 0
        keyed = [info for info in spec.states if info.is_keyed]
        if spec.key is not None:
            self.backend = HeapBackend(keyed, spec.key.type, max_parallelism, self.view)

    # ------------------------------------------------------------ snapshot

    def freeze(self, epoch: Epoch) -> Cut:
        """The synchronous part: O(1) for keyed state, a copy for operator state."""
        frozen = {} if self.backend is None else self.backend.freeze()
        if frozen:
            self.chain.add(Segment(f"a{self._attempt}-s{self._subtask}-e{epoch}", frozen=frozen))
        units = {name: handle.copy_units() for name, handle in self.lists.items()}
        return Cut(self.chain.segments, units)

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

    def leftovers(self, segment: Segment) -> list[Any]:
        """The parts of a frozen segment, for whoever lets go of them one at a time."""
        return [part for parts in segment.frozen.values() for part in parts]

    def write(self, storage: Storage, id: str, tables: list[StateTable], base: bool) -> SegmentRef:
        """Make tables durable. Runs beside the loop."""
        encoded = encode_state_file(
            tables, is_base=base, max_parallelism=self._max_parallelism, hash_id=HASH_ID
        )
        path = segment_path(self.uid, self._subtask, self._attempt, id)
        storage.write(path, encoded.data)
        file = FileRef(path, encoded.size_bytes, encoded.checksum)
        return SegmentRef(id, file, self.groups.first, self.groups.last, encoded.rows, base)

    def acknowledged(self, cut: Cut) -> SubtaskState:
        """What the manifest says of this subtask, once every segment of the cut is durable."""
        chain = tuple(segment.ref for segment in cut.segments if segment.ref is not None)
        assert len(chain) == len(cut.segments), "a segment is acknowledged before it is durable"
        units = {name: self.lists[name].encode(kept) for name, kept in cut.units.items()}
        return SubtaskState(self._subtask, chain, units)

    # ------------------------------------------------------------ compaction

    def next_compaction(self, longest: int) -> tuple[tuple[SegmentRef, ...], str, bool]:
        """The run to merge, the id of the result and whether it is a base; empty if none."""
        refs, to_base = self.chain.begin_compaction(longest)
        if refs:
            self._compactions += 1
        return refs, f"a{self._attempt}-s{self._subtask}-c{self._compactions}", to_base

    def compact(
        self, storage: Storage, refs: tuple[SegmentRef, ...], id: str, base: bool
    ) -> SegmentRef:
        """Merge segments into one file. Runs beside the loop."""
        assert self.backend is not None
        parts: dict[str, list[StateTable]] = {}
        for ref in refs:
            for table in read_segment(storage, ref):
                parts.setdefault(table.name, []).append(table)
        merged = [merge(p, to_base=base) for name, p in parts.items() if name in self.names]
        return self.write(storage, id, merged, base)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(info.name for info in self.spec.states)

    # ------------------------------------------------------------ restore

    def restore_units(self, units: Mapping[str, OperatorUnits]) -> None:
        for name, stored in units.items():
            if name in self.lists:
                self.lists[name].restore(stored)

    def restore_tables(self, tables: list[StateTable], restored: RestoredState) -> Iterator[None]:
        """Apply what was read, a slice at a time."""
        assert self.backend is not None
        for table in tables:
            if table.name in self.names:
                yield from self.backend.apply(table)
        if restored.rewrite:
            self.backend.mark_all_changed()
        else:
            self.chain = SegmentChain.restored(restored.chain)


def read_segment(storage: Storage, ref: SegmentRef) -> list[StateTable]:
    """The rows of a segment that may be applied, checked against the manifest."""
    file = open_state_file(storage, ref.file)
    return [file.read(name, ref.first_group, ref.last_group) for name in file.states]


def read_chain(storage: Storage, chain: tuple[SegmentRef, ...]) -> list[StateTable]:
    """The rows of a whole chain, in the order they must be applied."""
    return [table for ref in chain for table in read_segment(storage, ref)]
