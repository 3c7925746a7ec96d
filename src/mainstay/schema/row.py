"""Row: one record as a user function sees it, a tuple whose columns have names.

    >>> Order = row_class(pa.schema([("customer", pa.string()), ("amount", pa.int64())]))
    >>> order = Order(("alice", 5))
    >>> order.amount, order["customer"], order[0], order
    (5, 'alice', 'alice', Row(customer='alice', amount=5))

A row is a plain tuple in every other respect: it unpacks, compares and hashes as one. There is one
class for each sequence of column names; reading a column by attribute is one step in C.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import pyarrow as pa

from mainstay.schema.types import check_names_differ
from mainstay.spelling import did_you_mean

try:
    # What namedtuple itself uses; private, so there is a slower way for an interpreter without it.
    from collections import _tuplegetter as _getter  # type: ignore[attr-defined]
except ImportError:

    def _getter(position: int, doc: str) -> property:
        return property(lambda row: tuple.__getitem__(row, position), doc=doc)


class Row(tuple[Any, ...]):
    """The base of every row class. Built from one iterable of values, in column order.

    The number of values is not checked: rows are built by the million from columns that match.
    """

    __slots__ = ()

    _fields: ClassVar[tuple[str, ...]] = ()
    _positions: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._positions[key])
            except KeyError:
                raise KeyError(self._unknown(key)) from None
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self._unknown(name))

    def __repr__(self) -> str:
        columns = zip(self._fields, self, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in columns)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._fields, tuple(self))

    def asDict(self, recursive: bool = False) -> dict[str, Any]:  # noqa: N802 (as in pyspark)
        """The row as a dict; with ``recursive`` the rows inside it become dicts as well."""
        values = (_as_dicts(value) for value in self) if recursive else self
        return dict(zip(self._fields, values, strict=True))

    def _unknown(self, name: str) -> str:
        known = ", ".join(self._fields)
        meant = did_you_mean(name, self._fields)
        return f"the row has no column {name!r}; its columns are {known}{meant and f'.{meant}'}"


def row_class(schema: pa.Schema) -> type[Row]:
    """The row class of a schema; the same class for every schema with the same column names.

    A column is an attribute unless its name is no identifier, is one that Python reserves
    (``__len__``) or is ``asDict`` or ``_fields``; ``row["name"]`` reaches every column.
    """
    return class_of(tuple(schema.names))


# Unbounded on purpose: a program has as many row classes as it has schemas.
@cache
def class_of(fields: tuple[str, ...]) -> type[Row]:
    """The row class with these column names."""
    check_names_differ(fields)
    members: dict[str, Any] = {
        name: _getter(position, f"The column {name!r}.")
        for position, name in enumerate(fields)
        if not _is_reserved(name)
    }
    members |= {
        "__slots__": (),
        "__module__": __name__,
        "_fields": fields,
        "_positions": {name: position for position, name in enumerate(fields)},
    }
    return type("Row", (Row,), members)


def _is_reserved(name: str) -> bool:
    return (name.startswith("__") and name.endswith("__")) or name in vars(Row)


def _rebuild(fields: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return class_of(fields)(values)


def _as_dicts(value: Any) -> Any:
    if isinstance(value, Row):
        return value.asDict(recursive=True)
    if isinstance(value, list):
        return [_as_dicts(element) for element in value]
    if isinstance(value, dict):
        return {key: _as_dicts(element) for key, element in value.items()}
    return value
