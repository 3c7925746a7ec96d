"""Columnar keyed state as an operator sees it: partial results of many keys folded in at once.

Where the columns live is the table's concern: the heap backend keeps arrays by slot, another may
read and write the keys of a batch in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from mainstay.state.info import StateInfo

if TYPE_CHECKING:
    from mainstay.state.accumulating import Column
    from mainstay.state.keyed import AnyContext


class ColumnsTable(Protocol):
    """What a backend offers for accumulators. ``read`` gives None where nothing is kept."""

    @property
    def read(self) -> Callable[[Any], Any]: ...

    def fold(self, keys: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge a partial result of each accumulator into each of some distinct keys.

        Gives what is kept for these keys afterwards, which nobody may change. Where the state has
        a namespace they are structs of a key and a namespace.
        """


class ColumnsHandle:
    """The state of an aggregating operator."""

    __slots__ = ("_context", "_read", "_thaw", "fold", "info")

    def __init__(self, info: StateInfo, table: ColumnsTable, context: AnyContext) -> None:
        self.info = info
        self.fold = table.fold
        self._context = context
        self._read = table.read
        self._thaw = info.value.thaw

    def get(self) -> Any:
        """The accumulators of the current key as a row, or None where nothing is kept."""
        kept = self._read(self._context.current_key)
        return kept if kept is None or self._thaw is None else self._thaw(kept)
