"""Restoring with an external database: going on with its tables, or loading them anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.contract import Restore
from mainstay.state.backends.external.descriptor import (
    Descriptor,
    check_not_ahead,
    check_not_behind,
    is_external,
)
from mainstay.state.backends.external.ledger import Pending
from mainstay.state.backends.external.store import Applied, TableSet
from mainstay.state.keygroups import KeyGroupRange

if TYPE_CHECKING:
    from mainstay.state.backends.external.backend import ExternalBackend


def go_on(backend: ExternalBackend, start: Restore) -> None:
    """Take over the tables that a chain names, and what they lack of it."""
    bases = [ref for ref in start.chain if is_external(ref)]
    found = [Descriptor.read(start.storage, ref) for ref in bases]
    for each in found:
        _check_own(backend, each)
    backend.use(found[0].tables if found else backend.set, is_known=bool(found))
    applied = _checked_ledger(backend, start, dict(zip(bases, found, strict=True)))
    known: list[Descriptor | Applied] = [*found, *applied]
    backend.unapplied.restored(
        max((each.epoch for each in known), default=0),
        max((each.number for each in known), default=0),
        applied,
    )
    for ref in start.chain:
        if not is_external(ref):
            for pending in _missing(backend, start, ref, applied):
                # Without a base there is no savepoint that reads the tables, and all of the state
                # may be in the chain.
                backend.take_over(pending) if found else backend.apply_at_once(pending)
    _sweep(backend, [backend.set.making])


def _check_own(backend: ExternalBackend, found: Descriptor) -> None:
    if (found.lineage, found.uid) != (backend.set.lineage, backend.set.uid):
        raise RestoreError(
            f"the {backend.set} is described as that of operator {found.uid!r} of another job "
            f"({found.lineage}). Start from a savepoint of that job."
        )


def _checked_ledger(
    backend: ExternalBackend, start: Restore, bases: dict[SegmentRef, Descriptor]
) -> list[Applied]:
    """The ledger, if the database has come just as far as a chain says."""
    groups = backend.place.groups
    applied = backend.store.applied(backend.set, groups)
    for ref, found in bases.items():
        check_not_behind(found, KeyGroupRange(ref.first_group, ref.last_group), applied)
    epochs = {ref.id: found.epoch for ref, found in bases.items()}
    check_not_ahead(backend.set, groups, start.chain, epochs, applied)
    return applied


def _missing(
    backend: ExternalBackend, start: Restore, ref: SegmentRef, applied: Sequence[Applied]
) -> list[Pending]:
    """What the database lacks of a segment, a run of key-groups at a time."""
    found = []
    for groups in backend.unapplied.missing(ref, applied):
        tables = [each for each in start.read(ref) if each.name in backend.tables]
        mine = [part for each in tables if (part := _within(each, groups)) is not None]
        size_bytes = sum(each.table.nbytes for each in mine)
        pending = backend.unapplied.add(ref.id, size_bytes, groups)
        pending.tables = mine
        found.append(pending)
    return found


def load(backend: ExternalBackend, start: Restore) -> None:
    """Load what belongs to somebody else into tables of its own, which no epoch names yet."""
    kept = [Descriptor.read(start.storage, r).making for r in start.chain if is_external(r)]
    place = backend.place
    backend.use(TableSet(place.lineage, place.uid, f"a{place.attempt}"), is_known=False)
    _sweep(backend, [backend.set.making, "", *kept])
    for ref in start.chain:
        for rows in start.read(ref):
            if rows.name in backend.tables:
                backend.load_rows(rows)


def _sweep(backend: ExternalBackend, keep: Sequence[str]) -> None:
    """Drop the tables that no epoch needs. One subtask does it for all."""
    if backend.place.groups.first == 0:
        backend.store.sweep(backend.set, backend.place.attempt, keep)


def _within(rows: StateTable, groups: KeyGroupRange) -> StateTable | None:
    """The rows of some key-groups; None where there are none."""
    mine = (rows.groups >= groups.first) & (rows.groups <= groups.last)
    if not mine.any():
        return None
    if mine.all():
        return rows
    return StateTable(rows.name, rows.table.filter(pa.array(mine)), rows.groups[mine], rows.repeats)
