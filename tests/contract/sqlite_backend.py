"""A backend that keeps state in SQLite: what it takes to add one, and nothing more.

A write goes to SQLite at once and is noted as a change. State that is restored from elsewhere is
stored as a file of SQLite, which is this backend's own format of a base.
"""

from __future__ import annotations

import io
import pickle
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mainstay.snapshot.checked import read_checked, reference
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.statefile import StateTable
from mainstay.snapshot.storage import Storage
from mainstay.state.backends.contract import PathOf, Place, Restore
from mainstay.state.backends.current import CurrentBackend
from mainstay.state.backends.plain import plain_table
from mainstay.state.backends.tables import Tables
from mainstay.state.freezing import NAN
from mainstay.state.keyed import KeyContext
from mainstay.state.segments import OWN_FORMATS
from mainstay.state.ttl import stored_info

FORMAT = "sqlite"


class _Pickler(pickle.Pickler):
    def persistent_id(self, found: Any) -> str | None:
        return "nan" if found is NAN else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: str) -> float:
        return NAN  # equal to itself only where it is the same object


def _pickled(kept: Any) -> bytes:
    data = io.BytesIO()
    _Pickler(data).dump(kept)
    return data.getvalue()


def _unpickled(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


class SqliteStore:
    """One state: rows by number. Only the numbers of keys are in memory."""

    def __init__(self, name: str, database: sqlite3.Connection) -> None:
        self._database = database
        self._table = f'"state {name}"'
        columns = "number INTEGER PRIMARY KEY, key BLOB, kept BLOB"
        database.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns})")
        rows = database.execute(f"SELECT number, key FROM {self._table}").fetchall()
        self._numbers = {_unpickled(key): number for number, key in rows}

    def read(self, key: Any) -> Any:
        query = f"SELECT kept FROM {self._table} WHERE number = ?"
        found = self._database.execute(query, (self._numbers.get(key),)).fetchone()
        return None if found is None else _unpickled(found[0])

    def write(self, key: Any, kept: Any) -> None:
        number = self._numbers.setdefault(key, len(self._numbers))
        self._database.execute(f"DELETE FROM {self._table} WHERE number = ?", (number,))
        if kept is not None:
            row = (number, _pickled(key), _pickled(kept))
            self._database.execute(f"INSERT INTO {self._table} VALUES (?, ?, ?)", row)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        rows = self._database.execute(f"SELECT key, kept FROM {self._table}").fetchall()
        return ((_unpickled(key), _unpickled(kept)) for key, kept in rows)


class SqliteBackend(CurrentBackend):
    """The keyed state of one subtask in a database of its own, which a base is a dump of."""

    def __init__(self, place: Place, dump: str = "") -> None:
        self.place = place
        self.infos = list(map(stored_info, place.states))
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.executescript(dump)
        found = {
            info.name: plain_table(info, place.key, SqliteStore(info.name, self.database))
            for info in self.infos
        }
        super().__init__(
            Tables(place.states, place.key, place.max_parallelism, place.context, found)
        )

    def restore(self, start: Restore) -> list[StateTable]:
        for table in (table for ref in start.chain for table in start.read(ref)):
            for _ in self.apply(table):
                pass
        return []

    def base(self, id: str, storage: Storage, path_of: PathOf) -> SegmentRef:
        infos = [replace(info, function=None, migrate=None) for info in self.infos]
        place = replace(self.place, states=infos, context=None)
        data, path = pickle.dumps((place, "".join(self.database.iterdump()))), path_of(id)
        storage.write(path, data)
        groups = self.place.groups
        file = reference(path, data)
        return SegmentRef(id, file, groups.first, groups.last, 0, is_base=True, format=FORMAT)

    def close(self) -> None:
        self.database.close()


def read_base(storage: Storage, ref: SegmentRef) -> Iterator[StateTable]:
    """The rows of a dump, for any backend."""
    place, dump = pickle.loads(read_checked(storage, ref.file))
    backend = SqliteBackend(replace(place, context=KeyContext()), dump)
    backend.mark_all_changed()
    *_, tables = backend.encode(backend.freeze())
    for table in tables:
        mine = (table.groups >= ref.first_group) & (table.groups <= ref.last_group)
        yield StateTable(table.name, table.table.filter(pa.array(mine)), table.groups[mine])


@dataclass(frozen=True)
class SqliteSettings:
    def open(self, place: Place) -> SqliteBackend:
        return SqliteBackend(place)


OWN_FORMATS[FORMAT] = read_base
