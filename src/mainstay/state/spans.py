"""Spans as an operator sees them: accumulators by key and start, a few for each key.

A session is one, which grows, and may merge with others of its key. The start is the namespace, a
whole number or a timestamp. Unlike in panes, hardly two keys have the same, so spans are found by
key, and go one by one. An operator knows a span by its *place*, a number that stays until the span
is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from mainstay.state.info import StateInfo

if TYPE_CHECKING:
    from mainstay.state.accumulating import Column
    from mainstay.state.keyed import AnyContext
    from mainstay.state.slots import Slots
    from mainstay.state.span_places import Places, Starts


class SpansTable(Protocol):
    """What a backend offers for spans."""

    @property
    def read(self) -> Callable[[Any], Any]:
        """What is kept for a pair of a key and a start, None where nothing is."""

    def of(self, keys: pa.Array) -> tuple[Slots, Places]:
        """All spans of some distinct keys: the number of the key among these, and the place."""

    def all(self) -> Places:
        """All spans."""

    def keys(self, places: Places) -> pa.Array:
        """The keys of spans."""

    def starts(self, places: Places) -> Starts:
        """The starts of spans, as numbers."""

    def columns_at(self, places: Places) -> list[Column]:
        """What is kept for spans; nobody changes that later."""

    def add(
        self, keys: pa.Array, codes: Slots, starts: Starts, columns: Sequence[Column]
    ) -> Places:
        """Keep something for distinct pairs of which none is there: of a key, by its number among
        distinct ones, and a start."""

    def put_at(self, places: Places, columns: Sequence[Column]) -> None:
        """Keep something else for distinct spans."""

    def remove(self, places: Places) -> None:
        """Forget distinct spans."""


class SpansHandle:
    """The state of an operator that keeps spans."""

    __slots__ = (
        "_context",
        "_read",
        "_thaw",
        "add",
        "all",
        "columns",
        "info",
        "keys",
        "of",
        "put",
        "remove",
        "starts",
    )

    def __init__(self, info: StateInfo, table: SpansTable, context: AnyContext) -> None:
        self.info = info
        self._context = context
        self._read = table.read
        self._thaw = info.value.thaw
        self.of, self.all = table.of, table.all
        self.keys, self.starts, self.columns = table.keys, table.starts, table.columns_at
        self.add, self.put, self.remove = table.add, table.put_at, table.remove

    def get(self) -> Any:
        """The accumulators of the current key and start as a row, or None where there are none."""
        kept = self._read(self._context.current_key)
        return kept if kept is None or self._thaw is None else self._thaw(kept)
