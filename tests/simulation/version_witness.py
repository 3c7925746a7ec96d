"""Looks at a database with versions all the time, as another program would, and compares.

What an epoch has to show is noted where it is cut: what each subtask reads of its own states at
that moment. What the database shows is compared with it whenever the pointer moves, and may not
change as long as an epoch can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from mainstay.state.backends.changes import decoded
from mainstay.state.backends.external import descriptor
from mainstay.state.backends.external.backend import ExternalBackend
from mainstay.state.backends.external.store import StateColumns, Stored, TableSet
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import type_named
from mainstay.testing.memory_versions import VersionedMemoryStore

Contents = dict[str, dict[Any, Any]]
Owner = tuple[str, str]
NOTHING = (None, {}, [])
EVERYTHING = KeyGroupRange(0, (1 << 15) - 1)


@dataclass
class Witness:
    """What was to be seen, and what was seen otherwise."""

    cuts: dict[tuple[Owner, int, int], dict[KeyGroupRange, Contents]] = field(default_factory=dict)
    """By operator, attempt and epoch: what each subtask had."""
    complete: dict[str, set[int]] = field(default_factory=dict)
    """The epochs that subtasks were told are committed, by job."""
    shown: dict[tuple[TableSet, int], Any] = field(default_factory=dict)
    retain: int = 1
    compared: int = 0
    wrong: list[str] = field(default_factory=list)

    # ------------------------------------------------------------ what a job does

    def opened(self, backend: Any) -> None:
        self.retain = backend.place.retain
        if backend.place.since.epoch:
            self.told(backend, backend.place.since.epoch)

    def told(self, backend: Any, epoch: int) -> None:
        self.complete.setdefault(backend.place.lineage, set()).add(epoch)

    def cut(self, backend: Any, epoch: int) -> None:
        place = backend.place
        if isinstance(backend.own.store, VersionedMemoryStore):
            owner = (place.lineage, place.uid)
            parts = self.cuts.setdefault((owner, place.attempt, epoch), {})
            parts[place.groups] = contents_of(backend)

    # ------------------------------------------------------------ what a database shows

    def moved(self, store: Any, tables: TableSet, epoch: int, states: Any) -> None:
        """The pointer has moved."""
        if epoch not in self.complete.get(tables.lineage, ()):
            self.wrong.append(f"epoch {epoch} is shown, and is not committed")
        seen = self.shown[tables, epoch] = view(store, tables, epoch)
        owner = (tables.lineage, tables.uid)
        found = [parts for (of, _, at), parts in self.cuts.items() if (of, at) == (owner, epoch)]
        whole = [each for each in map(_joined, found) if each is not None]
        if whole:
            self.compared += 1
            shown = {each.name: decoded_rows(seen[each.name], each) for each in states}
            for name, rows in shown.items():
                if all(each[name] != rows for each in whole):
                    had = [each[name] for each in whole]
                    self.wrong.append(f"epoch {epoch} shows of {name} {rows}, and has {had}")

    def looked(self, store: Any, tables: TableSet) -> None:
        """Something was written: what was shown of an epoch is what is shown."""
        versions = store.versions(tables)
        for epoch in {versions.pointer, *versions.viewable}:
            known = self.shown.get((tables, epoch))
            if known is not None and view(store, tables, epoch) != known:
                self.wrong.append(f"epoch {epoch} shows something else than before")

    def folded(self, tables: TableSet, epoch: int) -> None:
        kept = sorted(self.complete[tables.lineage])[-self.retain :]
        if epoch > kept[0] or len(kept) < self.retain:
            self.wrong.append(f"epoch {epoch} was folded, and {kept} may be asked for")


def contents_of(backend: Any) -> Contents:
    """All that a subtask has, without a trace of the look."""
    server = backend.own.store.server
    faults, server.faults = server.faults, 0
    found: Contents = {}
    for name, table in backend.tables.items():
        reads = 0 if table.database is None else table.database.single_reads
        keys = {key: None for key, _ in table.stored()} | table.changed_keys()
        kept = {key: table.peek(key) for key in keys}
        found[name] = {k: _plain(each) for k, each in kept.items() if each not in NOTHING}
        if table.database is not None:
            table.database.single_reads = reads
    server.faults = faults
    return found


def _plain(kept: Any) -> Any:
    """As it is now: what is kept may change later."""
    return type(kept)(kept) if isinstance(kept, list | dict) else kept


def _joined(parts: dict[KeyGroupRange, Contents]) -> Contents | None:
    """What all subtasks have together; None if one of them is missing."""
    groups = sorted((each for each in parts if len(each)), key=lambda each: each.first)
    if not groups or groups[0].first != 0:
        return None
    if any(a.last + 1 != b.first for a, b in pairwise(groups)):
        return None
    found: Contents = {}
    for contents in parts.values():
        for name, rows in contents.items():
            found.setdefault(name, {}).update(rows)
    return found


def view(store: Any, tables: TableSet, epoch: int) -> dict[str, list[Stored]]:
    return {state: store.view(tables, state, epoch) for state in store.server.tables[tables]}


class _Rows:
    """A database that has some rows."""

    def __init__(self, rows: list[Stored]) -> None:
        self.rows = rows
        self.tables, self.number = None, 1 << 62

    def scan(self, *_: Any) -> list[Stored]:
        return self.rows


def decoded_rows(rows: list[Stored], state: StateColumns) -> dict[Any, Any]:
    """Rows as a subtask has them."""
    info, some = descriptor.info_of(state), _Rows(rows)
    stored = StoredKey.of(type_named(state.key_type), info.namespace)
    found: dict[Any, Any] = {}
    for table in descriptor._read_state(some, some, state, EVERYTHING):  # type: ignore[arg-type]
        for key, _, map_key, kept in decoded(table.table, info, stored):
            if state.kind == "map":
                found.setdefault(key, {})[map_key] = kept
            else:
                found[key] = _plain(kept)
    return found


@contextmanager
def witnessed() -> Iterator[Witness]:
    """Have every database with versions looked at; what was wrong is raised at the end."""
    witness = Witness()
    init, cut, told = ExternalBackend.__init__, ExternalBackend.on_cut, ExternalBackend.on_complete
    move, states = VersionedMemoryStore._move, {}
    fence = VersionedMemoryStore.fence

    def opened(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        witness.opened(self)

    def on_cut(self: Any, epoch: int) -> None:
        cut(self, epoch)
        witness.cut(self, epoch)

    def on_complete(self: Any, epoch: int) -> None:
        witness.told(self, epoch)
        told(self, epoch)

    def fenced(self: Any, tables: Any, attempt: int, of: Any, **more: Any) -> None:
        states[tables] = of
        fence(self, tables, attempt, of, **more)

    def moved(self: Any, tables: Any, epoch: int) -> None:
        before = self.versions(tables).pointer
        move(self, tables, epoch)
        if self.versions(tables).pointer != before:
            witness.moved(self, tables, epoch, states[tables])

    with (
        patch.object(ExternalBackend, "__init__", opened),
        patch.object(ExternalBackend, "on_cut", on_cut),
        patch.object(ExternalBackend, "on_complete", on_complete),
        patch.object(VersionedMemoryStore, "fence", fenced),
        patch.object(VersionedMemoryStore, "_move", moved),
        _looking_after_writes(witness),
    ):
        yield witness
    assert not witness.wrong, witness.wrong[0]


@contextmanager
def _looking_after_writes(witness: Witness) -> Iterator[None]:
    fold, discard = VersionedMemoryStore.fold, VersionedMemoryStore.discard
    take_in = VersionedMemoryStore._take_in

    def folds(self: Any, tables: Any, attempt: int, groups: Any, epoch: int) -> None:
        witness.folded(tables, epoch)
        try:
            fold(self, tables, attempt, groups, epoch)
        finally:
            witness.looked(self, tables)

    def discards(self: Any, tables: Any, *rest: Any) -> None:
        try:
            discard(self, tables, *rest)
        finally:
            witness.looked(self, tables)

    def takes_in(self: Any, tables: Any, *rest: Any) -> None:
        take_in(self, tables, *rest)
        witness.looked(self, tables)

    with (
        patch.object(VersionedMemoryStore, "fold", folds),
        patch.object(VersionedMemoryStore, "discard", discards),
        patch.object(VersionedMemoryStore, "_take_in", takes_in),
    ):
        yield
