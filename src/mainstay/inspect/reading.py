"""Reading states outside a job: which files hold some key-groups of a state, and what they say.

A ``StateView`` is one state at one epoch of a snapshot directory, or in a savepoint. It is cut into
``StateSlice``s, each some key-groups with the parts of files that are needed for them, which any
process that reaches the storage can read by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import DamagedFileError, RestoreError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.open_files import OpenFiles
from mainstay.runtime.coordinator.origin import load_origin, place_of
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.kept import kept_epochs, no_such_epoch
from mainstay.snapshot.layout import safe_name
from mainstay.snapshot.manifest import PARQUET, Manifest, OperatorState, SegmentRef
from mainstay.snapshot.object_storage import open_existing
from mainstay.snapshot.savepoint import is_savepoint
from mainstay.snapshot.storage import Storage, shared
from mainstay.spelling import did_you_mean
from mainstay.state.broadcast import parts
from mainstay.state.elements import without_expired
from mainstay.state.hashing import key_groups
from mainstay.state.operator import decode_units
from mainstay.state.segments import check_readable
from mainstay.state.whole import to_whole

SLICE_BYTES = 64 << 20
FIRST_SLICE_BYTES = 1 << 20
CHECKPOINT_SLICE_BYTES = 512 << 20
"""How much stored state goes into a slice. For each slice a whole checkpoint is fetched again."""

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint, or an epoch of a snapshot directory."""

    place: str
    is_savepoint: bool
    manifest: Manifest

    @staticmethod
    def open(path: str, epoch: int | str = LATEST) -> Origin:
        """Open a savepoint or a snapshot directory; ``./snapshots#7`` names an epoch as well."""
        place, marked = place_of(path)
        place = shared(place)
        number = epoch_number(epoch, marked)
        storage = open_existing(place)
        if not is_savepoint(storage):
            return Origin(place, False, _load_epoch(storage, place, number))
        manifest = load_origin(storage, place)
        if number not in (None, manifest.epoch):
            raise RestoreError(
                f"{place!r} is a savepoint of epoch {manifest.epoch} and has no epoch {number}. "
                f"Leave epoch out."
            )
        return Origin(place, True, manifest)

    @property
    def name(self) -> str:
        """What names this very epoch, also when there are later ones."""
        return self.place if self.is_savepoint else f"{self.place}#{self.manifest.epoch}"

    def operator(self, uid: str) -> OperatorState:
        found = self.manifest.operators.get(uid)
        if found is None:
            known = sorted(self.manifest.operators)
            raise RestoreError(
                f"there is no operator {uid!r} at {self.name!r}; there are {known}."
                f"{did_you_mean(uid, known)}"
            )
        return found

    def states(self) -> dict[str, StateColumns]:
        """Its states, each by the name ``operator.state``."""
        return {
            f"{uid}.{schema.name}": StateColumns(uid, schema, stored.key_type, stored.key_names)
            for uid, stored in self.manifest.operators.items()
            for schema in stored.states
        }

    def view(self, uid: str, state: str) -> StateView:
        """One state of it."""
        operator = self.operator(uid)
        for schema in operator.states:
            if schema.name == state:
                columns = StateColumns(uid, schema, operator.key_type, operator.key_names)
                return StateView(self.place, self.manifest, columns)
        known = sorted(schema.name for schema in operator.states)
        raise RestoreError(
            f"operator {uid!r} at {self.name!r} has no state {state!r}; it has {known}."
            f"{did_you_mean(state, known)}"
        )


def epoch_number(epoch: int | str, marked: int | None) -> int | None:
    """The epoch that is asked for, None for the latest."""
    if epoch == LATEST:
        return marked
    if isinstance(epoch, bool) or not str(epoch).isdigit():
        raise RestoreError(
            f'epoch={epoch!r} is no epoch. Give its number, or "latest".'
            f"{did_you_mean(epoch, [LATEST])}"
        )
    if marked not in (None, int(epoch)):
        raise RestoreError(f"epoch={epoch} was given for a path that names epoch {marked}.")
    return int(epoch)


def _load_epoch(storage: Storage, place: str, number: int | None) -> Manifest:
    try:
        return load_origin(storage, place if number is None else f"{place}#{number}")
    except DamagedFileError as error:
        kept = kept_epochs(storage, read_history(storage))
        raise RestoreError(
            f"epoch {number or 'latest'} at {place!r} cannot be read: {error} The epochs that are "
            f"kept there: {kept}."
        ) from error


@dataclass(frozen=True, slots=True)
class StateView:
    """One state at one moment."""

    place: str
    manifest: Manifest
    columns: StateColumns

    @property
    def key_groups(self) -> int:
        """How many key-groups its operator has."""
        return self.manifest.key_groups(self.columns.operator)

    def groups_of(self, keys: Sequence[tuple[Any, ...]]) -> list[int]:
        """The key-group of each of some keys, given as the values of the key's columns."""
        arrays = self.columns.key_arrays(keys)
        groups: list[int] = key_groups(arrays, self.key_groups).tolist()
        return groups

    def slices(
        self, least: int = 1, groups: Sequence[int] | None = None
    ) -> list[StateSlice | UnitsSlice]:
        """The state in parts, at least this many if there are as many key-groups.

        ``groups`` are the key-groups that are wanted, all where it is None.
        """
        operator = self.manifest.operators[self.columns.operator]
        if not self.columns.is_keyed:
            shares = ((s.subtask, s.units.get(self.columns.schema.name)) for s in operator.subtasks)
            found = tuple((number, share.data) for number, share in shares if share is not None)
            return [UnitsSlice(self.columns, found)]
        refs = self.refs()
        wanted = range(self.key_groups) if groups is None else sorted(set(groups))
        parts = (_clipped(refs, part) for part in self._parts(refs, wanted, least))
        return [
            StateSlice(self.place, self.manifest.epoch, self.columns, part, self.horizon_us())
            for part in parts
            if part
        ]

    def growing_slices(self) -> Iterator[StateSlice | UnitsSlice]:
        """The state in order of its key-groups, each part twice as large as the one before.

        Who wants few rows reads little beyond them, and who wants all of them few parts. What a
        backend stores in a way of its own is fetched as a whole, and is not divided for this.
        """
        refs, groups = self.refs() if self.columns.is_keyed else [], self.key_groups
        if not refs or any(ref.is_backends_own for ref in refs):
            yield from self.slices()
            return
        stored = sum(ref.size_bytes for ref in refs)
        first, count = 0, max(1, groups * FIRST_SLICE_BYTES // max(1, stored))
        while first < groups:
            yield from self.slices(groups=range(first, min(groups, first + count)))
            first, count = first + count, 2 * count

    def refs(self) -> list[SegmentRef]:
        """The files that may hold rows of the state, those of a chain oldest first."""
        operator, name = self.manifest.operators[self.columns.operator], self.columns.schema.name
        chains = (task.chain for task in operator.subtasks)
        return [ref for chain in chains for ref in chain if may_hold(ref, operator.uid, name)]

    def _parts(
        self, refs: list[SegmentRef], wanted: Sequence[int], least: int
    ) -> Iterator[Sequence[int]]:
        """The wanted key-groups in parts. No part needs two checkpoints, as they are fetched."""
        checkpoints = [ref for ref in refs if ref.is_backends_own]

        def checkpoint_of(group: int) -> int:
            owners = (n for n, ref in enumerate(checkpoints) if ref.clipped(group, group))
            return next(owners, -1)

        share = len(wanted) / self.key_groups
        if not checkpoints:
            stored = sum(ref.size_bytes for ref in refs) * share
            yield from _divided(wanted, max(least, math.ceil(stored / SLICE_BYTES)))
            return
        for number, group in groupby(wanted, checkpoint_of):
            stored = checkpoints[number].size_bytes * share if number >= 0 else 0
            yield from _divided(list(group), math.ceil(stored / CHECKPOINT_SLICE_BYTES))

    def check_kept(self, storage: Storage) -> None:
        """A job that runs may have retired the epoch since it was chosen: that is no damage."""
        check_kept(storage, self.place, self.manifest.epoch)

    def horizon_us(self) -> int | None:
        """What was touched before had expired when the epoch was taken."""
        ttl_us = self.columns.schema.ttl_us
        return None if ttl_us is None else int(self.manifest.created_at * 1_000_000) - ttl_us


def may_hold(ref: SegmentRef, uid: str, state: str) -> bool:
    """Whether a file may hold rows of a state; those of a savepoint hold one state each."""
    if ref.format != PARQUET:
        return True
    return ref.file.path.startswith(f"state/{safe_name(uid)}/{safe_name(state)}/")


def _divided(groups: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    count = min(len(groups), max(1, count))
    bounds = [len(groups) * number // max(1, count) for number in range(count + 1)]
    for low, after in pairwise(bounds):
        yield groups[low:after]


def _clipped(refs: list[SegmentRef], groups: Sequence[int]) -> tuple[SegmentRef, ...]:
    """The chains' parts for some key-groups.

    A key-group is in the chain of one subtask, so chains may stand one after the other, as may the
    runs of a chain. A checkpoint is taken once, with what lies between.
    """
    runs = _runs(groups)
    if any(ref.is_backends_own for ref in refs):
        runs = [(groups[0], groups[-1])]
    clipped = (ref.clipped(first, last) for first, last in runs for ref in refs)
    return tuple(ref for ref in clipped if ref is not None)


def _runs(groups: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as ranges, both ends included."""
    runs: list[tuple[int, int]] = []
    for group in groups:
        if runs and runs[-1][1] == group - 1:
            runs[-1] = (runs[-1][0], group)
        else:
            runs.append((group, group))
    return runs


@dataclass(frozen=True, slots=True)
class StateSlice:
    """Some key-groups of a keyed state, and the parts of files that say what is in them."""

    place: str
    epoch: int
    columns: StateColumns
    chain: tuple[SegmentRef, ...]
    horizon_us: int | None

    def read(self, files: OpenFiles | None = None) -> pa.Table:
        """What is kept in these key-groups, as it is shown; from files that are open already."""
        files = files or OpenFiles(open_existing(self.place))
        storage, columns = files.storage, self.columns
        try:
            name = columns.schema.name
            parts = [part for ref in self.chain for part in files.read(ref, name)]
            check_readable(storage, self.chain)
        except DamagedFileError as error:
            check_kept(storage, self.place, self.epoch)
            raise DamagedFileError(f"{columns.label} at {self.place!r}: {error}") from error
        if self.horizon_us is not None:
            parts = [without_expired(part, columns.stored_as, self.horizon_us) for part in parts]
        whole = to_whole(parts, columns.stored_as)
        if whole is None:
            return pa.schema(columns.fields()).empty_table()
        return columns.shown(whole)


def check_kept(storage: Storage, place: str, epoch: int) -> None:
    """Say so where an epoch is kept no more."""
    if is_savepoint(storage):
        return
    history = read_history(storage)
    if epoch not in kept_epochs(storage, history):
        raise no_such_epoch(storage, history, epoch, f" at {place!r}") from None


@dataclass(frozen=True, slots=True)
class UnitsSlice:
    """An operator state: the units of each subtask, as the manifest has them."""

    columns: StateColumns
    shares: tuple[tuple[int, bytes], ...]

    def read(self, files: OpenFiles | None = None) -> pa.Table:
        """The units, as they are shown; no file is needed for them."""
        schema = pa.schema(self.columns.fields())
        if self.columns.is_broadcast:
            return self._one_copy(schema)
        tables = [schema.empty_table()]
        for subtask, data in self.shares:
            units = decode_units(data)
            numbers = pa.array(np.full(len(units), subtask, np.int32))
            tables.append(pa.Table.from_arrays([numbers, units], schema=schema))
        return pa.concat_tables(tables)

    def _one_copy(self, schema: pa.Schema) -> pa.Table:
        """The entries of one subtask, as any has them all; not of one that had none to restore."""
        copies = (decode_units(data) for _, data in self.shares)
        units = next((copy for copy in copies if len(copy)), None)
        if units is None:
            return schema.empty_table()
        return pa.Table.from_arrays(list(parts(units)), schema=schema)
