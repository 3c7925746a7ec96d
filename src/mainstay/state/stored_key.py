"""What the rows of a state are stored under: a key, or a key and a namespace.

A state with a *namespace* keeps something for each pair of the two: a window's state lies under key
and pane, a timer under key and time. In files the namespace is a column after that of the key;
within a backend the pair takes the key's place. The key-group comes from the key alone, so that all
namespaces of a key are in one subtask. Nobody else says what the key-group of a stored row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.errors import StateTypeError
from mainstay.schema.sizes import combined
from mainstay.schema.transpose import shown
from mainstay.state.codes import Codes, codes_of, paired
from mainstay.state.hashing import key_groups
from mainstay.state.values import Keys, ValueType

KEY, NAMESPACE = "key", "namespace"

Groups = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class PairType(ValueType):
    """The type of a key with a namespace. What is kept is a tuple; a namespace is never None."""

    key: ValueType
    namespace: ValueType

    def __reduce__(self) -> tuple[Any, ...]:
        return pair_type, (self.key, self.namespace)

    def freeze_many(self, values: Iterable[Any]) -> list[Any]:
        """Every pair frozen. They may come as a struct array, too."""
        if type(values) is Keys:
            return values
        if isinstance(values, pa.Array | pa.ChunkedArray) and values.type == self.arrow:
            return self.from_array(values)
        return list(map(self.freeze, values))

    def to_array(self, kept: Sequence[Any]) -> pa.Array:
        keys, namespaces = zip(*kept, strict=True) if kept else ((), ())
        arrays = [self.key.to_array(keys), self.namespace.to_array(namespaces)]
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow))

    def from_array(self, column: pa.Array | pa.ChunkedArray) -> list[Any]:
        if isinstance(column, pa.ChunkedArray):
            # Not combined: together they may be more than one array can hold.
            return [pair for chunk in column.chunks for pair in self.from_array(chunk)]
        keys, namespaces = column.flatten()
        pairs = zip(self.key.from_array(keys), self.namespace.from_array(namespaces), strict=True)
        return list(pairs)


def pair_type(key: ValueType, namespace: ValueType) -> PairType:
    """The type of pairs of a key and a namespace."""
    arrow = pa.struct([(KEY, key.arrow), (NAMESPACE, namespace.arrow)])

    def freeze(pair: Any) -> Any:
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[1] is None:
            raise StateTypeError(f"{shown(pair)} is no pair of a key and a namespace.")
        return None if pair[0] is None else key.freeze(pair[0]), namespace.freeze(pair[1])

    return PairType(arrow, f"{key.ddl} by {namespace.ddl}", freeze, None, key, namespace)


@dataclass(frozen=True, slots=True, eq=False)
class StoredKey:
    """What rows of one state are stored under; ``type`` is that of what a backend keeps them by."""

    key: ValueType
    namespace: ValueType | None
    type: ValueType

    @staticmethod
    def of(key: ValueType, namespace: ValueType | None = None) -> StoredKey:
        return StoredKey(key, namespace, key if namespace is None else pair_type(key, namespace))

    @property
    def is_flat(self) -> bool:
        """Whether its columns are cheap to make."""
        parts = [self.key] if self.namespace is None else [self.key, self.namespace]
        return not any(pa.types.is_nested(part.arrow) for part in parts)

    def fields(self) -> list[tuple[str, pa.DataType]]:
        """The columns of stored rows that it is made of."""
        if self.namespace is None:
            return [(KEY, self.key.arrow)]
        return [(KEY, self.key.arrow), (NAMESPACE, self.namespace.arrow)]

    def batch(self, columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
        """Rows as they are stored, from columns of which the first is of ``type``."""
        if self.namespace is not None:
            columns = [*columns[0].flatten(), *columns[1:]]
        return pa.record_batch(columns, schema=schema)

    def column(self, rows: pa.Table) -> pa.Array:
        """What rows are stored under, as one column of ``type``."""
        keys = combined(rows.column(KEY))
        if self.namespace is None:
            return keys
        arrays = [keys, combined(rows.column(NAMESPACE))]
        return pa.StructArray.from_arrays(arrays, fields=list(self.type.arrow))

    def kept(self, rows: pa.Table) -> list[Any]:
        """What rows are stored under, in the form that is kept."""
        keys = self.key.from_array(rows.column(KEY))
        if self.namespace is None:
            return keys
        return list(zip(keys, self.namespace.from_array(rows.column(NAMESPACE)), strict=True))

    def groups(self, column: pa.Array, max_parallelism: int) -> Groups:
        """The key-group of each row of a column of ``type``."""
        return key_groups(self.hashed(column), max_parallelism)

    def hashed(self, column: pa.Array) -> list[pa.Array]:
        """What the key-group follows from: the key, and never the namespace."""
        return [column if self.namespace is None else column.field(KEY)]


# ---------------------------------------------------------------- rows of any state


def key_columns(rows: pa.Table) -> list[str]:
    """The columns of stored rows that say what they are stored under."""
    return [name for name in (KEY, NAMESPACE) if name in rows.column_names]


def codes_in(rows: pa.Table) -> Codes:
    """A code for each row, equal where rows are stored under the same."""
    first, *more = (codes_of(combined(rows.column(name))) for name in key_columns(rows))
    return paired(first, *more) if more else first


def groups_in(rows: pa.Table, max_parallelism: int) -> Groups:
    """The key-group of each stored row."""
    return key_groups([rows.column(KEY)], max_parallelism)
