"""Accumulators by key and pane over a database. Which keys are in which pane is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from mainstay.state.accumulating import Column
from mainstay.state.backends.cached.dropping import DroppingTable
from mainstay.state.backends.cached.tables import CachedColumns
from mainstay.state.backends.pane_index import IndexedPanes


class CachedPanes(DroppingTable, IndexedPanes, CachedColumns):
    """Rows of accumulators, read and written for the pairs of a batch in one go."""

    def fold_pairs(self, pairs: pa.Array, partials: Sequence[Column]) -> list[Column]:
        return CachedColumns.fold(self, pairs, partials)

    def freeze_as(self, generation: int) -> list[Any]:
        self.segment += 1
        return super().freeze_as(generation)

    def said(self, part: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        return ((pair, kept) for pair, kept in part.items() if kept is not None)

    def forget(self) -> None:
        super().forget()
        self.forget_index()

    def unsay(self, pair: Any) -> None:
        self.live[pair] = None
        self.changes.pop(pair, None)

    def is_deleted(self, pair: Any) -> bool:
        return pair in self.changes

    def came(self, pairs: list[Any]) -> None:
        # There is nothing to be read of them.
        self.live.update(dict.fromkeys(pairs))
