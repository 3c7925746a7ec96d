"""One value per key as an operator sees it that works on columns: read and written by the column.

It is a value state in everything that others see: files, manifests and questions. A backend may
keep its values as columns, too; where it does not they are converted on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from mainstay.state.fixed_width import Array
from mainstay.state.info import StateInfo
from mainstay.state.keyed import ValueHandle

if TYPE_CHECKING:
    from mainstay.state.keyed import AnyContext


class ColumnTable(Protocol):
    """What a backend offers that keeps the values of a state as columns."""

    peek: Callable[[Any], Any]
    """What is kept for a key; None where nothing is."""

    def column(self, keys: pa.Array) -> pa.Array:
        """What is kept for each of some keys; null where nothing is."""

    def put_column(self, keys: pa.Array, values: pa.Array) -> None:
        """Keep a value for each of some distinct keys; null deletes what is kept."""


@runtime_checkable
class ArrayTable(Protocol):
    """What a table offers more that keeps values of a fixed width in arrays by slot."""

    def taken(self, keys: pa.Array) -> tuple[Array, list[Array]]:
        """The slots of some distinct keys, and copies of what is in the arrays there."""

    def put_arrays(self, slots: Array, arrays: Sequence[Array]) -> None:
        """Keep something else in some distinct slots."""


class ColumnHandle:
    """The state of an operator that works on columns. Keys are columns of the key's type."""

    __slots__ = ("_context", "_peek", "arrays", "column", "info", "put_many")

    def __init__(self, info: StateInfo, table: ColumnTable, context: AnyContext) -> None:
        self.info = info
        self.column = table.column
        self.put_many = table.put_column
        self._context = context
        self._peek = table.peek
        self.arrays: ArrayTable | None = table if isinstance(table, ArrayTable) else None
        """The table, if it keeps values in arrays and gives them out."""

    def get(self) -> Any:
        """What the author's function would get for the current key."""
        return self.info.kind.given(self.info, self._peek(self._context.current_key))


def column_handle(info: StateInfo, table: Any, context: AnyContext) -> ColumnHandle | ValueHandle:
    """What an operator sees: of a table of values it is a handle that takes columns as well."""
    kind = ColumnHandle if hasattr(table, "put_column") else ValueHandle
    return kind(info, table, context)
