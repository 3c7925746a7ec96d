"""The base of an external chain: a small file that says where the rows are, and what they mean.

The rows themselves are in the database, which moves on. A base stands for all segments up to
``number``: the parts of lists after it are left out by its readers, because the segments
after it say them again. What they say of values and maps again does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice

import numpy as np
import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.manifest import EXTERNAL, SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.cached.lists import GENERATION
from mainstay.state.backends.cached.shapes import TABLES
from mainstay.state.backends.cached.writing import read_rows
from mainstay.state.backends.contract import PathOf
from mainstay.state.backends.external.changes import row_key_of
from mainstay.state.backends.external.reached import Reached, Run
from mainstay.state.backends.external.store import (
    GROUP,
    PART,
    Applied,
    StateColumns,
    Store,
    Stored,
    TableSet,
)
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.kinds import kind_named
from mainstay.state.operations import columns_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import type_named
from mainstay.state.values import ValueType

DESCRIPTOR_FORMAT = 1
READ_ROWS = 4096

STORES: dict[str, Callable[[], Store]] = {}
"""How this process reaches the databases that descriptors name. Descriptors hold no secrets, so a
database is known here once its settings were made or used."""


def state_columns(info: StateInfo, key: ValueType) -> StateColumns:
    """A state as a database keeps it."""
    map_key = None if info.map_key is None else info.map_key.ddl
    namespace = None if info.namespace is None else info.namespace.ddl
    stored_as = info.kind.stored_as
    return StateColumns(info.name, stored_as, key.ddl, info.value.ddl, map_key, namespace)


def info_of(state: StateColumns) -> StateInfo:
    """The state that a database keeps so."""
    map_key = None if state.map_key_type is None else type_named(state.map_key_type)
    namespace = None if state.namespace_type is None else type_named(state.namespace_type)
    kind, value = kind_named(state.kind), type_named(state.value_type)
    return StateInfo(state.name, kind, value, map_key, namespace=namespace)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Where the rows of a base are, and up to which segment they count."""

    store: str
    lineage: str
    uid: str
    making: str
    epoch: int
    number: int
    states: tuple[StateColumns, ...]
    reached: tuple[Run, ...] = ()
    """How far the ledger had come by then, by key-groups."""

    @property
    def tables(self) -> TableSet:
        return TableSet(self.lineage, self.uid, self.making)

    def save(
        self, storage: Storage, path_of: PathOf, id: str, groups: KeyGroupRange, rows: int
    ) -> SegmentRef:
        data = json.dumps({"format": DESCRIPTOR_FORMAT, **asdict(self)}, sort_keys=True).encode()
        path = path_of(f"{id}.json")
        storage.write(path, data)
        file = reference(path, data)
        first, last = groups.first, groups.last
        return SegmentRef(id, file, first, last, rows, is_base=True, format=EXTERNAL)

    @staticmethod
    def read(storage: Storage, ref: SegmentRef) -> Descriptor:
        document = json.loads(read_checked(storage, ref.file))
        found = document.pop("format")
        if found > DESCRIPTOR_FORMAT:
            raise RestoreError(
                f"{ref.file.path} describes external state in format {found}, and this version "
                f"reads formats up to {DESCRIPTOR_FORMAT}. Restore it with a newer version."
            )
        states = tuple(StateColumns(**each) for each in document.pop("states"))
        reached = tuple(tuple(run) for run in document.pop("reached", ()))
        return Descriptor(states=states, reached=reached, **document)

    def opened(self) -> Store:
        """The database that it names."""
        if self.store not in STORES:
            raise RestoreError(
                f"the state of operator {self.uid!r} is in {self.store}, which this process does "
                "not know how to reach: a snapshot holds no passwords. Make the settings of the "
                "job's state, such as ms.Postgres(dsn), before it is read; or take a savepoint, "
                "which holds all state itself."
            )
        return STORES[self.store]()


def check_not_ahead(
    tables: TableSet,
    groups: KeyGroupRange,
    chain: Sequence[SegmentRef],
    epochs: Mapping[str, int],
    applied: Sequence[Applied],
) -> None:
    """Refuse a chain that the database has moved on from: what was there before is nowhere.

    ``epochs`` says up to which epoch each base of the chain stands for the ledger.
    """
    for row in not_in(chain, groups, epochs, applied):
        raise RestoreError(
            f"the {tables} is in a database that has moved on to epoch {row.epoch}, and an "
            "older epoch is asked for. With state in an external database only the latest "
            "epoch can be restored. Start from that, or from a savepoint, which holds all "
            "state itself."
        )


def check_not_folded(tables: TableSet, strange: Sequence[Applied], folded: int) -> None:
    """Refuse a chain that lacks segments which are in the base of a database with versions."""
    if any(row.epoch <= folded for row in strange):
        raise RestoreError(
            f"the {tables} is in a database that has moved on: the oldest epoch that it has is "
            f"{folded}, and an older one is asked for. Start from a later epoch, or from a "
            "savepoint, which holds all state itself. Snapshots(retain=...) says how many epochs "
            "a job keeps."
        )


def check_not_abandoned(
    tables: TableSet, epochs: Iterable[int], abandoned: Sequence[tuple[int, int]]
) -> None:
    """Refuse bases of epochs that a job has left behind, when it went back to an older one."""
    for back_to, last in abandoned:
        if any(back_to < epoch <= last for epoch in epochs):
            raise RestoreError(
                f"the {tables} of epochs {back_to + 1} to {last} is in the database no more: the "
                f"job went back to epoch {back_to} and has gone on from there. Ask for a later "
                "epoch, or for a savepoint, which holds all state itself."
            )


def not_in(
    chain: Sequence[SegmentRef],
    groups: KeyGroupRange,
    epochs: Mapping[str, int],
    applied: Sequence[Applied],
) -> list[Applied]:
    """The rows of the ledger that neither a chain nor a base of it knows of, in some key-groups."""
    return [row for row in applied if _is_strange(row, chain, groups, epochs)]


def brought_late(
    chain: Sequence[SegmentRef], epoch: int, applied: Sequence[Applied], strange: Sequence[Applied]
) -> list[Applied]:
    """The other rows of the ledger after an epoch whose segments are in a chain.

    An attempt brings what the database lacks of a restored chain under the epoch that it starts
    from. For one that goes back behind that it is not part of the epoch yet: it is brought again.
    """
    ids = {ref.id for ref in chain}
    late = [row for row in applied if row.segment in ids and row.epoch > epoch]
    return [row for row in late if row not in strange]


def _is_strange(
    row: Applied, chain: Sequence[SegmentRef], groups: KeyGroupRange, epochs: Mapping[str, int]
) -> bool:
    known = {g for ref in chain if ref.id == row.segment for g in _groups(ref)}
    for ref in chain:
        if epochs.get(ref.id, -1) >= row.epoch:
            known.update(_groups(ref))
    return any(group in groups and group not in known for group in row.groups)


def check_not_behind(found: Descriptor, groups: KeyGroupRange, applied: Sequence[Applied]) -> None:
    """Refuse a database that lacks what it had when a base was made: it was set back."""
    if Reached(applied).lacks(found.reached, groups):
        raise RestoreError(
            f"the {found.tables} is in {found.store}, which has lost what it had acknowledged up "
            f"to epoch {found.epoch}: was it restored from a copy, or did a replica take over? "
            "Bring its newest state back, or start from a savepoint."
        )


def _groups(ref: SegmentRef) -> KeyGroupRange:
    return KeyGroupRange(ref.first_group, ref.last_group)


def check_chain(storage: Storage, chain: Sequence[SegmentRef]) -> None:
    """Refuse to read a chain whose database has moved on."""
    for ref in chain:
        if is_external(ref):
            found = Descriptor.read(storage, ref)
            store = found.opened()
            try:
                applied = store.applied(found.tables, _groups(ref))
                folded = store.folded(found.tables)
                abandoned = store.abandoned(found.tables)
            finally:
                store.close()
            _check_there(found, _groups(ref), chain, {ref.id: found.epoch}, applied, folded)
            check_not_abandoned(found.tables, [found.epoch], abandoned)


def _check_there(
    found: Descriptor,
    groups: KeyGroupRange,
    chain: Sequence[SegmentRef],
    epochs: Mapping[str, int],
    applied: Sequence[Applied],
    folded: int | None,
) -> None:
    if folded is None:
        check_not_ahead(found.tables, groups, chain, epochs, applied)
    else:
        check_not_folded(found.tables, not_in(chain, groups, epochs, applied), folded)


def read_external(storage: Storage, ref: SegmentRef) -> Iterator[StateTable]:
    """The rows of a base as segments hold them, for other backends and readers."""
    found = Descriptor.read(storage, ref)
    store = found.opened()
    try:
        for state in found.states:
            yield from _read_state(store, found, state, _groups(ref))
    finally:
        store.close()


def _read_state(
    store: Store, found: Descriptor, state: StateColumns, groups: KeyGroupRange
) -> Iterator[StateTable]:
    info, key = info_of(state), type_named(state.key_type)
    stored = StoredKey.of(key, info.namespace)
    # The groups are read from the rows, so their number does not matter.
    table = TABLES[info.kind.shape](info, stored, 0, 1)
    scanned = store.scan(found.tables, state.name, groups, found.number)
    rows = iter(_local_rows(scanned, state.kind, found.number))
    while some := list(islice(rows, READ_ROWS)):
        batch = stored.batch(read_rows(table, some), columns_of(info, key))
        of_rows = np.array([GROUP.unpack_from(row_key)[0] for row_key, _ in some], np.uint16)
        yield StateTable(state.name, pa.Table.from_batches([batch]), of_rows)


def _local_rows(rows: Iterator[Stored], kind: str, number: int) -> Iterator[tuple[bytes, bytes]]:
    """Rows as a local database has them, of lists no part that came after ``number``."""
    for k, some in groupby(rows, lambda row: row[0]):
        row_key = row_key_of(k)
        if kind == "map":
            for _, s, cell in some:
                yield row_key + s, cell
        elif kind == "list":
            parts = [cell for _, s, cell in some if PART.unpack(s)[0] <= number]
            if parts:
                yield row_key, GENERATION.pack(0) + b"".join(parts)
        else:
            yield from ((row_key, cell) for _, _, cell in some)


def is_external(ref: SegmentRef) -> bool:
    return ref.format == EXTERNAL
