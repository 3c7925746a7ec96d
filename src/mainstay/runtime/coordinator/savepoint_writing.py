"""From a complete epoch to the files of a savepoint, a piece at a time.

A piece is a range of key-groups of one subtask of one operator, or one operator state. Pieces are
written beside the coordinator's loop, one after the other, and a range is chosen so that what has
to be in memory for it stays bounded however large the state is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import pyarrow as pa

from mainstay.runtime.coordinator.origin import without_handles
from mainstay.runtime.coordinator.recovery import key_names_of, schema_of
from mainstay.runtime.feedback_log import with_rows
from mainstay.runtime.own_states import FEEDBACK
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.checked import read_checked
from mainstay.snapshot.manifest import (
    EXTERNAL,
    Manifest,
    OperatorState,
    OperatorUnits,
    SegmentRef,
    StateSchema,
)
from mainstay.snapshot.savepoint import (
    Savepoint,
    SavepointFile,
    SavepointOperator,
    SavepointState,
    keyed_path,
    operator_path,
)
from mainstay.snapshot.savepoint_files import write_keyed, write_units
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.units import load_units
from mainstay.state.broadcast import unit_type
from mainstay.state.kinds import kind_named
from mainstay.state.operator import decode_units, encode_units
from mainstay.state.segments import check_readable, read_segment
from mainstay.state.whole import to_whole

PIECE_BYTES = 64 << 20
CHECKPOINT_PIECE_BYTES = 512 << 20
"""How much stored state goes into a piece. For each piece a whole checkpoint is fetched again."""

PIECE_ROWS = 500_000
"""How many rows of an external database go into a piece, about."""

Written = tuple[str, str, SavepointFile]
"""The uid of an operator, the name of a state, and a file of it."""


class Piece(Protocol):
    """A part of a savepoint."""

    def write(self, storage: Storage, target: Storage) -> list[Written]:
        """Read from the job's storage, store in the savepoint's. Runs in the background."""


@dataclass(frozen=True, slots=True)
class KeyedPiece:
    """Some key-groups of one subtask of an operator: all keyed states, read in one go."""

    uid: str
    number: int
    states: tuple[StateSchema, ...]
    chain: tuple[SegmentRef, ...]

    def write(self, storage: Storage, target: Storage) -> list[Written]:
        parts: dict[str, list[StateTable]] = {}
        for ref in self.chain:
            for table in read_segment(storage, ref):
                parts.setdefault(table.name, []).append(table)
        check_readable(storage, self.chain)
        written: list[Written] = []
        for state in self.states:
            whole = to_whole(parts.pop(state.name, []), kind_named(state.kind).stored_as)
            if whole is not None:
                path = keyed_path(self.uid, state.name, self.number)
                file = write_keyed(target, path, whole, self.uid)
                written.append((self.uid, state.name, file))
        return written


@dataclass(frozen=True, slots=True)
class OperatorPiece:
    """One operator state of all subtasks."""

    uid: str
    state: StateSchema
    units: tuple[OperatorUnits, ...]

    def write(self, storage: Storage, target: Storage) -> list[Written]:
        path = operator_path(self.uid, self.state.name)
        loaded = [load_units(storage, units) for units in self.units]
        if self.state == schema_of(FEEDBACK):
            loaded = [
                with_rows(units, lambda file: read_checked(storage, file)) for units in loaded
            ]
        arrays: Sequence[pa.Array] = [decode_units(units.data) for units in loaded]
        file = write_units(target, path, arrays, self.uid, self.state.name)
        return [(self.uid, self.state.name, file)]


def pieces_of(manifest: Manifest) -> list[Piece]:
    """Everything that a savepoint of an epoch consists of."""
    found: list[Piece] = []
    for stored in without_handles(manifest).operators.values():
        found += _keyed_pieces(stored)
        found += [_operator_piece(stored, s) for s in stored.states if s.redistribute is not None]
    return found


def _keyed_pieces(stored: OperatorState) -> list[Piece]:
    keyed = tuple(state for state in stored.states if state.redistribute is None)
    chains = [chain for subtask in stored.subtasks for chain in _ranges(subtask.chain)]
    return [
        KeyedPiece(stored.uid, number, keyed, chain)
        for number, chain in enumerate(chains)
        if chain and keyed
    ]


def _ranges(chain: tuple[SegmentRef, ...]) -> Iterator[tuple[SegmentRef, ...]]:
    """A chain cut into ranges of key-groups."""
    if not chain:
        return
    first, last = min(ref.first_group for ref in chain), max(ref.last_group for ref in chain)
    most = CHECKPOINT_PIECE_BYTES if any(ref.is_backends_own for ref in chain) else PIECE_BYTES
    by_size = math.ceil(sum(r.size_bytes for r in chain) / most)
    # What is in an external database is not in the size of its base.
    by_rows = math.ceil(sum(r.rows for r in chain if r.format == EXTERNAL) / PIECE_ROWS)
    count = min(last - first + 1, max(1, by_size, by_rows))
    bounds = [first + (last - first + 1) * number // count for number in range(count + 1)]
    for low, after in pairwise(bounds):
        clipped = (ref.clipped(low, after - 1) for ref in chain)
        yield tuple(ref for ref in clipped if ref is not None)


def _operator_piece(stored: OperatorState, state: StateSchema) -> Piece:
    assert state.redistribute is not None
    nothing = encode_units(pa.array([], unit_type(state)))
    none = OperatorUnits(state.redistribute, 0, nothing)
    shares = tuple(subtask.units.get(state.name, none) for subtask in stored.subtasks)
    return OperatorPiece(stored.uid, state, shares)


def savepoint_of(manifest: Manifest, job: JobSpec, written: Sequence[Written]) -> Savepoint:
    """What ``savepoint.json`` says once all pieces are written."""
    names = {operator.uid: key_names_of(operator) for _, operator in job.operators()}
    return Savepoint(
        job=manifest.job,
        epoch=manifest.epoch,
        created_at=manifest.created_at,
        mode=manifest.mode,
        max_parallelism=manifest.max_parallelism,
        hash_id=manifest.hash_id,
        operators={
            uid: SavepointOperator(
                uid,
                stored.parallelism,
                stored.key_type,
                names.get(uid, ()),
                tuple(SavepointState(s, _files(written, uid, s.name)) for s in stored.states),
                stored.max_parallelism,
            )
            for uid, stored in manifest.operators.items()
        },
        sources=manifest.sources,
    )


def _files(written: Sequence[Written], uid: str, state: str) -> tuple[SavepointFile, ...]:
    return tuple(file for owner, name, file in written if (owner, name) == (uid, state))
