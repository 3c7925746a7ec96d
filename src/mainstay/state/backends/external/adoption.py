"""Restoring with an external database: going on with its tables, or loading them anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.snapshot.drops import clipped
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.contract import Restore
from mainstay.state.backends.external.descriptor import (
    Descriptor,
    check_not_behind,
    is_external,
)
from mainstay.state.backends.external.ledger import NOTHING, Pending
from mainstay.state.backends.external.logged import Logged
from mainstay.state.backends.external.own_tables import OwnTables
from mainstay.state.backends.external.store import Applied, TableSet
from mainstay.state.keygroups import KeyGroupRange

Undropped = Callable[[StateTable], StateTable | None]
"""Rows of a segment with a deletion of each row that its drops are of; None for those of a state
that nobody declares. What the segments before have put must be in the database, or taken over."""


def go_on(
    commits: Logged, start: Restore, undropped: Undropped, take_over: Callable[[Pending], None]
) -> None:
    """Take over the tables that a chain names, and what they lack of it."""
    own, unapplied = commits.own, commits.unapplied
    bases = [ref for ref in start.chain if is_external(ref)]
    found = [Descriptor.read(start.storage, ref) for ref in bases]
    for each in found:
        _check_own(own, each)
    _check_same(own, found)
    own.use(found[0].tables if found else own.set, is_known=bool(found))
    applied = _checked_ledger(commits, start, dict(zip(bases, found, strict=True)))
    known: list[Descriptor | Applied] = [*found, *applied]
    unapplied.restored(
        max((each.epoch for each in known), default=0),
        max((each.number for each in known), default=0),
        applied,
    )
    for ref in start.chain:
        if not is_external(ref):
            for pending in _missing(commits, start, ref, applied, undropped):
                # Without a base there is no savepoint that reads the tables, and all of the state
                # may be in the chain.
                take_over(pending) if found else _apply_at_once(commits, pending)
    commits.adopted()
    _sweep(own, [own.set.making])


def _check_own(own: OwnTables, found: Descriptor) -> None:
    if (found.lineage, found.uid) != (own.set.lineage, own.set.uid):
        raise RestoreError(
            f"the {own.set} is described as that of operator {found.uid!r} of another job "
            f"({found.lineage}). Start from a savepoint of that job."
        )
    if not re.fullmatch(rf"{own.set.making}(a\d+)?", found.making):
        raise RestoreError(
            f"the {own.set} is in tables of another protocol, in {found.store}. Go on with that "
            "protocol, or start from a savepoint, which holds all state itself."
        )


def _check_same(own: OwnTables, found: Sequence[Descriptor]) -> None:
    makings = sorted({each.making for each in found})
    if len(makings) > 1:
        raise RestoreError(
            f"the {own.set} is in tables of several makings ({', '.join(map(repr, makings))}), and "
            "an attempt goes on with one. Start from a savepoint, which holds all state itself."
        )


def _checked_ledger(
    commits: Logged, start: Restore, bases: dict[SegmentRef, Descriptor]
) -> list[Applied]:
    """The ledger, if the database has come just as far as a chain says."""
    epochs = {ref.id: found.epoch for ref, found in bases.items()}
    applied = commits.reconciled(start.chain, epochs, commits.own.applied())
    for ref, found in bases.items():
        check_not_behind(found, KeyGroupRange(ref.first_group, ref.last_group), applied)
    return applied


def _missing(
    commits: Logged,
    start: Restore,
    ref: SegmentRef,
    applied: Sequence[Applied],
    undropped: Undropped,
) -> list[Pending]:
    """What the database lacks of a segment, a run of key-groups at a time."""
    found = []
    for groups in commits.unapplied.missing(ref, applied):
        parts = [part for each in start.read(ref) if (part := _within(each, groups)) is not None]
        mine = list(filter(None, map(undropped, parts)))
        size_bytes = sum(each.table.nbytes for each in mine)
        pending = commits.unapplied.add(ref.id, size_bytes, groups)
        pending.tables = mine
        found.append(pending)
    return found


def _apply_at_once(commits: Logged, pending: Pending) -> None:
    """Apply a restored segment before anything else."""
    commits.unapplied.cut(commits.adopted_epoch)
    commits.apply(pending, NOTHING)
    commits.unapplied.applied(pending)


def load(
    own: OwnTables, start: Restore, undropped: Undropped, put: Callable[[StateTable], None]
) -> None:
    """Load what belongs to somebody else into tables of its own, which no epoch names yet."""
    kept = [Descriptor.read(start.storage, r).making for r in start.chain if is_external(r)]
    place, began = own.place, own.set.making
    own.use(TableSet(place.lineage, place.uid, f"{began}a{place.attempt}"), is_known=False)
    _sweep(own, [own.set.making, began, *kept])
    for ref in start.chain:
        for rows in start.read(ref):
            if (whole := undropped(rows)) is not None:
                put(whole)


def _sweep(own: OwnTables, keep: Sequence[str]) -> None:
    """Drop the tables that no epoch needs. One subtask does it for all."""
    if own.place.groups.first == 0:
        own.store.sweep(own.set, own.place.attempt, keep)


def _within(rows: StateTable, groups: KeyGroupRange) -> StateTable | None:
    """The rows and drops of some key-groups; None where there are none."""
    mine = (rows.groups >= groups.first) & (rows.groups <= groups.last)
    drops = clipped(rows.drops, groups.first, groups.last)
    if not mine.any() and not drops:
        return None
    table = rows.table if mine.all() else rows.table.filter(pa.array(mine))
    return StateTable(rows.name, table, rows.groups[mine], rows.repeats, drops=drops)
