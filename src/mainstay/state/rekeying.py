"""Rekeying: what becomes of stored keys when an operator is keyed by another type.

Integers and decimals widen: the hash is canonical over that, so every key stays in its key-group.
Any other change needs a function of the job's author, ``key_by(..., migrate_key=...)``, and may
move keys to any key-group: then every subtask reads everything and keeps what is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.schema.transpose import shown
from mainstay.snapshot.statefile import StateTable
from mainstay.state.evolution import compare_keys, convert
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.migration import migration_failed
from mainstay.state.stored_key import groups_in
from mainstay.state.ttl import type_named
from mainstay.state.values import ValueType


def plan_keys(uid: str, stored: str | None, declared: ValueType | None, has_function: bool) -> str:
    """How stored keys become declared ones: "same", "converted" or "migrated"."""
    if declared is None or stored is None:
        if stored is None and declared is None:
            return "same"
        raise _misfit(uid, stored, declared)
    if stored == declared.ddl:
        return "same"
    if compare_keys(type_named(stored).arrow, declared.arrow).problem is None:
        return "converted"
    if has_function:
        return "migrated"
    raise _misfit(uid, stored, declared)


def _misfit(uid: str, stored: str | None, declared: ValueType | None) -> RestoreError:
    now = None if declared is None else declared.ddl
    way = "" if now is None or stored is None else ", give key_by() migrate_key=<a function of it>"
    return RestoreError(
        f"operator {uid!r} was keyed by {stored}, and is now keyed by {now}. Key it by {stored} as "
        f"before{way}, or give it another uid to start empty."
    )


@dataclass(slots=True)
class KeyMigration:
    """Keys turned into others by a function, over all tables of an operator in one subtask."""

    uid: str
    stored: ValueType
    declared: ValueType
    function: Callable[[Any], Any]
    groups: KeyGroupRange
    max_parallelism: int
    _old_of: dict[Any, Any] = field(default_factory=dict)

    def rows(self, rows: StateTable) -> StateTable:
        """The rows whose new keys belong to this subtask, with those keys."""
        old = self.stored.from_array(rows.table.column("key"))
        new = {key: self._migrated(key) for key in dict.fromkeys(old)}
        column = self.declared.to_array([new[key] for key in old])
        table = _with_keys(rows.table, column)
        groups = groups_in(table, self.max_parallelism)
        keep = (groups >= self.groups.first) & (groups <= self.groups.last)
        self._check_distinct(old, new, keep)
        return StateTable(rows.name, table.filter(pa.array(keep)), groups[keep])

    def _migrated(self, kept: Any) -> Any:
        if kept is None:
            return None
        old = kept if self.stored.thaw is None else self.stored.thaw(kept)
        try:
            new = self.function(old)
            if new is None:
                raise ValueError("it gave None")
            return self.declared.freeze(new)
        except BaseException as error:
            where = f"operator {self.uid!r}"
            raise migration_failed(where, f"the key {shown(old)}", error) from error

    def _check_distinct(self, old: list[Any], new: dict[Any, Any], keep: Any) -> None:
        for key in {old[row] for row in np.flatnonzero(keep).tolist()}:
            first = self._old_of.setdefault(new[key], key)
            if first != key:
                raise RestoreError(
                    f"operator {self.uid!r}: the keys {shown(first)} and {shown(key)} both become "
                    f"{shown(new[key])}, and their states cannot be joined. Let migrate_key give "
                    "different keys different ones."
                )


def convert_keys(rows: StateTable, declared: ValueType) -> StateTable:
    """The rows with wider keys, which stay in their key-groups."""
    column = convert(rows.table.column("key").combine_chunks(), declared.arrow)
    return replace(rows, table=_with_keys(rows.table, column), hashes=None)


def _with_keys(table: pa.Table, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index("key"), "key", column)
