"""The columns of a state: how it is shown as a table, and how a table becomes a state again.

========== ==========================================================
kind       columns
========== ==========================================================
value      the columns of the key, the value, ``key_group``
list       the columns of the key, the list as an array, ``key_group``
map        the columns of the key, ``map_key``, the value, ``key_group``; a row for each entry
operator   ``subtask``, ``unit``; a row for each unit
broadcast  ``map_key``, the value; a row for each entry, of one subtask: all hold the same
========== ==========================================================

The value is named after its state; a name that is taken already gets an underscore at its end. A
key that a function made is the column ``key``. A state with a time to live has one column more,
``touched_at``: when the value, the entry, or each element of the list was last touched. One with a
namespace has the column ``namespace`` after those of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema import array_of
from mainstay.schema.sizes import cut
from mainstay.schema.types import TIMESTAMP
from mainstay.snapshot.manifest import StateSchema
from mainstay.snapshot.savepoint_files import GROUP_COLUMN, KeyedRows
from mainstay.state.kinds import BROADCAST_MAP, kind_named
from mainstay.state.stored_key import KEY, NAMESPACE
from mainstay.state.ttl import join_stamps, type_named

MAP_KEY, TOUCHED = "map_key", "touched_at"
SUBTASK, UNIT = "subtask", "unit"


@dataclass(frozen=True, slots=True)
class StateColumns:
    """One state of an operator as columns. Types are DDL, which travels better than Arrow's."""

    operator: str
    schema: StateSchema
    key_type: str | None
    key_names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The state, as messages name it."""
        return f"operator {self.operator!r}, state {self.schema.name!r}"

    @property
    def is_keyed(self) -> bool:
        return self.schema.redistribute is None

    @property
    def is_broadcast(self) -> bool:
        """Whether it is a map that every subtask holds in full."""
        return self.schema.kind == BROADCAST_MAP.name

    @property
    def stored_as(self) -> str:
        """How the rows of a keyed state are stored: as values, lists or maps."""
        return kind_named(self.schema.kind).stored_as

    @property
    def has_namespace(self) -> bool:
        return self.schema.namespace is not None

    @property
    def has_ttl(self) -> bool:
        return self.schema.ttl_us is not None

    # ------------------------------------------------------------ types

    def key_arrow(self) -> pa.DataType:
        """The type of the key as it is stored."""
        if self.key_type is None:
            raise StateTypeError(f"{self.label} is keyed state of an operator without a key.")
        return type_named(self.key_type).arrow

    def key_fields(self) -> list[pa.Field]:
        """The columns of the key: its own, or one for what a function made."""
        key = self.key_arrow()
        if len(self.key_names) < 2:
            return [pa.field(name, key) for name in self.key_names or (KEY,)]
        return [pa.field(n, part.type) for n, part in zip(self.key_names, key, strict=True)]

    def element_arrow(self) -> pa.DataType:
        """The type of a value, of an element of a list, of a unit."""
        return type_named(self.schema.value_type).arrow

    def value_arrow(self) -> pa.DataType:
        """The type of the value's column."""
        element = self.element_arrow()
        return pa.list_(element) if self.is_keyed and self.stored_as == "list" else element

    def namespace_arrow(self) -> pa.DataType:
        assert self.schema.namespace is not None
        return type_named(self.schema.namespace).arrow

    def map_key_arrow(self) -> pa.DataType:
        assert self.schema.map_key_type is not None
        return type_named(self.schema.map_key_type).arrow

    def data_fields(self) -> list[pa.Field]:
        """The columns that make up the state, without the one that follows from them."""
        return self.fields()[:-1] if self.is_keyed else self.fields()

    def fields(self) -> list[pa.Field]:
        """All columns, as they are shown."""
        if self.is_broadcast:
            value = pa.field(self.schema.name, self.element_arrow())
            return _distinct([pa.field(MAP_KEY, self.map_key_arrow()), value])
        if not self.is_keyed:
            return [pa.field(SUBTASK, pa.int32()), pa.field(UNIT, self.element_arrow())]
        fields = self.key_fields()
        if self.has_namespace:
            fields.append(pa.field(NAMESPACE, self.namespace_arrow()))
        if self.stored_as == "map":
            fields.append(pa.field(MAP_KEY, self.map_key_arrow()))
        fields.append(pa.field(self.schema.name, self.value_arrow()))
        if self.has_ttl:
            is_list = self.stored_as == "list"
            fields.append(pa.field(TOUCHED, pa.list_(TIMESTAMP) if is_list else TIMESTAMP))
        return _distinct([*fields, pa.field(GROUP_COLUMN, pa.int32())])

    def key_columns(self) -> list[str]:
        """The names of the key's columns, as they are shown."""
        return [field.name for field in self.fields()[: len(self.key_fields())]]

    @property
    def touched_column(self) -> str | None:
        """The column that may be left out of what is written."""
        return self.data_fields()[-1].name if self.is_keyed and self.has_ttl else None

    @property
    def group_column(self) -> str:
        return str(self.fields()[-1].name)

    # ------------------------------------------------------------ rows

    def shown(self, rows: KeyedRows) -> pa.Table:
        """Whole state (columns key, map_key, value) as it is shown."""
        pieces = []
        for first, after in cut(rows.table):
            table = rows.table.slice(first, after - first)
            pieces.append(self._shown(replace(rows, table=table, groups=rows.groups[first:after])))
        return pa.concat_tables(pieces)

    def _shown(self, rows: KeyedRows) -> pa.Table:
        key = rows.table.column(KEY).combine_chunks()
        columns = [key] if len(self.key_names) < 2 else key.flatten()
        columns += [rows.table.column(name).combine_chunks() for name in self._further_keys()]
        value = rows.table.column("value").combine_chunks()
        columns += self._without_stamps(value) if self.has_ttl else [value]
        columns.append(pa.array(rows.groups.astype(np.int32)))
        return pa.Table.from_arrays(columns, schema=pa.schema(self.fields()))

    def _further_keys(self) -> list[str]:
        """The stored columns that a row is found by beside the key."""
        namespace = [NAMESPACE] if self.has_namespace else []
        return [*namespace, MAP_KEY] if self.stored_as == "map" else namespace

    def _without_stamps(self, value: pa.Array) -> list[pa.Array]:
        if self.stored_as != "list":
            stamps, values = value.flatten()
            return [values, stamps.cast(TIMESTAMP)]
        stamps, values = value.flatten().flatten()
        offsets = offsets_of(value)
        return [pa.ListArray.from_arrays(offsets, a) for a in (values, stamps.cast(TIMESTAMP))]

    def key_arrays(self, keys: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
        """The columns of some keys, each given as the values of its columns."""
        fields = self.key_fields()
        values = [[key[n] for key in keys] for n in range(len(fields))]
        return [array_of(v, f.type, f.name) for v, f in zip(values, fields, strict=True)]

    def joined_key(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The key as it is stored, from its columns in their types."""
        if len(self.key_names) < 2:
            return columns[0]
        return pa.StructArray.from_arrays(list(columns), fields=list(self.key_arrow()))

    def stored(self, columns: Sequence[pa.Array], now_us: int) -> pa.Table:
        """Whole state from its data columns in their types; now is the stamp where none is given.

        Lists and their stamps must be of the same lengths.
        """
        count = len(self.key_fields())
        further = self._further_keys()
        value, *rest = columns[count + len(further) :]
        arrays = [self.joined_key(columns[:count]), *columns[count : count + len(further)]]
        if self.has_ttl:
            value = self._with_stamps(value, rest[0] if rest else None, now_us)
        return pa.Table.from_arrays([*arrays, value], names=[KEY, *further, "value"])

    def _with_stamps(self, value: pa.Array, touched: pa.Array | None, now_us: int) -> pa.Array:
        is_list = self.stored_as == "list"
        flat = value.flatten() if is_list else value
        if touched is None:
            stamps = pa.array(np.full(len(flat), now_us, np.int64))
        else:
            stamps = (touched.flatten() if is_list else touched).cast(pa.int64())
        joined = join_stamps(stamps, flat)
        return pa.ListArray.from_arrays(offsets_of(value), joined) if is_list else joined


def offsets_of(lists: pa.Array) -> pa.Array:
    """The offsets of lists into their flattened elements, wherever the array was cut from."""
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return pa.array(ends, pa.int32())


def _distinct(fields: list[pa.Field]) -> list[pa.Field]:
    """The fields, each with a name of its own; Spark does not tell upper from lower case."""
    taken: set[str] = set()
    found = []
    for field in fields:
        name = field.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        found.append(field.with_name(name))
    return found
