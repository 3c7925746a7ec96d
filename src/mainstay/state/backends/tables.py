"""The tables of a backend: one for each state, with the handles over them.

Backends that keep changes in Python objects share this; they differ in the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import MainstayError
from mainstay.schema.transpose import shown
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.contract import Frozen
from mainstay.state.dropping import drops_in, without_drops
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.looking import Look
from mainstay.state.operations import columns_of
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType


class Tables(Mapping[str, Any]):
    """The states of one subtask of one operator, by name."""

    def __init__(
        self,
        infos: Sequence[StateInfo],
        key: ValueType,
        max_parallelism: int,
        context: KeyContext,
        tables: Mapping[str, Any],
    ) -> None:
        context.key_type = key
        self.max_parallelism = max_parallelism
        self._tables = dict(tables)
        self._infos = {info.name: info for info in infos}
        self._keys = {info.name: StoredKey.of(key, info.namespace) for info in infos}
        self.expiring = {
            info.name: info.kind.ttl_table(info, tables[info.name], context.now_us)
            for info in infos
            if info.ttl is not None and info.kind.ttl_table is not None
        }
        seen = {**tables, **self.expiring}
        self.handles = {
            info.name: info.kind.handle(
                info, seen[info.name], context if info.namespace is None else context.namespaced
            )
            for info in infos
        }

    def __getitem__(self, name: str) -> Any:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        """Turn a frozen segment into columns, a slice at a time; the tables come last."""
        done: list[StateTable] = []
        for name, parts in frozen.items():
            table = self._tables[name]
            key = self._keys[name]
            schema = columns_of(table.info, key.key)
            batches, groups = [], [np.empty(0, np.uint16)]
            rest = without_drops(parts)
            for columns in table.encode(rest):
                batches.append(key.batch(columns, schema))
                groups.append(key.groups(columns[0], self.max_parallelism))
                yield []
            rows = pa.Table.from_batches(batches, schema)
            drops = drops_in(parts, self.max_parallelism)
            of_rows, repeats = np.concatenate(groups), table.repeats_keys(rest)
            done.append(StateTable(name, rows, of_rows, repeats, drops=drops))
        yield done

    def leftovers(self, frozen: Frozen) -> list[Any]:
        """The parts of a frozen segment that take time to free."""
        return [
            part
            for name, parts in frozen.items()
            for part in self._tables[name].leftovers(without_drops(parts))
        ]

    def peek(self, name: str, key: Any, namespace: Any = None) -> Any:
        """What the handle of a state would give for a key, from a table that leaves no trace."""
        info = self._infos[name]
        if (namespace is None) != (info.namespace is None):
            raise MainstayError(
                f"state {name!r} has {'no' if info.namespace is None else 'a'} namespace, and the "
                f"look at it named {shown(namespace)}. Name one just for a state that has one."
            )
        asked = key if namespace is None else (key, namespace)
        (frozen,) = self._keys[name].type.freeze_many([asked])
        kept = self._tables[name].peek(frozen)
        if kept is not None and name in self.expiring:
            expiring = self.expiring[name]
            kept = expiring.counting(kept, expiring.horizon())
        return info.kind.given(info, kept)

    def look_at(self, name: str, keys: Sequence[Any]) -> Look:
        """What is kept for some keys just now; no trace is left."""
        table = self._tables[name]
        frozen = dict.fromkeys(self._keys[name].type.freeze_many(keys))
        return self._look(name, ((key, table.peek(key)) for key in frozen))

    def look_around(self, name: str, most: int) -> Look:
        """What is kept for as many keys as ``most`` just now."""
        return self._look(name, islice(self._tables[name].entries(), most))

    def _look(self, name: str, kept: Iterable[tuple[Any, Any]]) -> Look:
        horizon_us = self.expiring[name].horizon() if name in self.expiring else None
        return Look.at(self._tables[name].info, kept, horizon_us)

    def entries_of(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Every key and what is kept for it, in no particular order."""
        found: Iterator[tuple[Any, Any]] = self.expiring.get(name, self._tables[name]).entries()
        return found
