"""Spans over a database. Which spans there are is in memory."""

from __future__ import annotations

from mainstay.state.backends.cached.tables import CachedColumns
from mainstay.state.backends.indexed_spans import IndexedSpans


class CachedSpans(IndexedSpans, CachedColumns):
    """Rows of accumulators, read and written for the spans of a batch in one go."""

    def forget(self) -> None:
        super().forget()
        self.forget_index()
