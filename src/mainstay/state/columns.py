"""Columnar keyed state as an operator sees it: partial results of many keys folded in at once.

With a namespace that is a whole number, a date or a timestamp it consists of *panes*: all keys of a
namespace can be read, and dropped, at once. A pane is known by the number under its namespace.

Where the columns live is the table's concern: the heap backend keeps arrays by slot, another may
read and write the keys of a batch in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.grouping import is_word, words_of
from mainstay.state.info import StateInfo
from mainstay.state.values import ValueType

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


class PanesTable(ColumnsTable, Protocol):
    """What a backend offers for accumulators in panes."""

    def fold_into(
        self,
        keys: pa.Array,
        codes: npt.NDArray[np.int64],
        namespaces: npt.NDArray[np.int64],
        partials: Sequence[Column],
    ) -> None:
        """Merge a partial result of each accumulator into each of some distinct pairs: of a key, by
        its number among distinct ``keys``, and a namespace."""

    def panes(self) -> list[int]:
        """The namespaces that anything is kept for, in order."""

    def pane(self, namespace: int) -> tuple[pa.Array, list[Column]]:
        """The keys of a namespace, and what is kept for each; nobody changes that later."""

    def drop(self, namespace: int) -> None:
        """Forget a namespace with all its keys."""


class PanesHandle(ColumnsHandle):
    """The state of an operator that aggregates by key and pane."""

    __slots__ = ("drop", "fold_into", "pane", "panes")

    def __init__(self, info: StateInfo, table: PanesTable, context: AnyContext) -> None:
        super().__init__(info, table, context)
        self.fold_into = table.fold_into
        self.panes = table.panes
        self.pane = table.pane
        self.drop = table.drop


def columns_handle(info: StateInfo, table: Any, context: AnyContext) -> ColumnsHandle:
    """What an operator sees of a columnar state."""
    return (PanesHandle if has_panes(info) else ColumnsHandle)(info, table, context)


def has_panes(info: StateInfo) -> bool:
    """Whether a columnar state consists of panes."""
    if info.kind.shape != "columns" or info.namespace is None:
        return False
    return is_word(info.namespace.arrow)


def word_of(namespace: ValueType, kept: Any) -> int:
    """The number under one namespace."""
    return int(words_of(namespace.to_array([kept]))[0])


def words_as(namespace: ValueType, words: npt.NDArray[np.int64]) -> pa.Array:
    """Namespaces as a column, from the numbers under them."""
    arrow = namespace.arrow
    numbers = words.astype(f"<i{arrow.bit_width // 8}", copy=False)
    return pa.Array.from_buffers(arrow, len(words), [None, pa.py_buffer(numbers)])
