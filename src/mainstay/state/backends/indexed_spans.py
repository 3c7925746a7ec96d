"""Spans over a table that keeps a row for each pair of a key and a start.

Which spans there are is in memory, also where their rows are not. It is made from all rows when it
is first needed after a restore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.columns import words_as
from mainstay.state.grouping import Grouper, words_of
from mainstay.state.info import StateInfo
from mainstay.state.slots import Slots
from mainstay.state.span_places import Places, SpanPlaces, Starts
from mainstay.state.stored_key import PairType
from mainstay.state.values import ValueType


class IndexedSpans:
    """What such a table has more; a table inherits from it first."""

    info: StateInfo
    key: ValueType
    parts: list[Accumulating]
    _index: SpanPlaces | None = None

    # ------------------------------------------------------------ what the table does

    entries: Any
    read_many: Any
    put_many: Any
    delete: Any

    # ------------------------------------------------------------ spans

    def of(self, keys: pa.Array) -> tuple[Slots, Places]:
        return self._known().of(keys)

    def all(self) -> Places:
        return self._known().all()

    def keys(self, places: Places) -> pa.Array:
        return self._known().keys(places)

    def starts(self, places: Places) -> Starts:
        return self._known().starts(places)

    def columns_at(self, places: Places) -> list[Column]:
        fields = self.info.value.to_array(self.read_many(self._pairs(places), None)).flatten()
        return [part.from_arrow(field) for part, field in zip(self.parts, fields, strict=True)]

    def add(
        self, keys: pa.Array, codes: Slots, starts: Starts, columns: Sequence[Column]
    ) -> Places:
        places = self._known().add(keys, codes, starts)
        self.put_at(places, columns)
        return places

    def put_at(self, places: Places, columns: Sequence[Column]) -> None:
        arrays = [part.to_arrow(c) for part, c in zip(self.parts, columns, strict=True)]
        rows = pa.StructArray.from_arrays(arrays, fields=list(self.info.value.arrow))
        self.put_many(self._pairs(places), self.info.value.from_array(rows))

    def remove(self, places: Places) -> None:
        for pair in self._pairs(places):
            self.delete(pair)
        index = self._known()
        index.remove(places)
        if index.has_many_dead:
            index.number_anew()

    # ------------------------------------------------------------ the index

    def forget_index(self) -> None:
        """Rows were changed by others."""
        self._index = None

    def _known(self) -> SpanPlaces:
        if self._index is None:
            assert isinstance(self.key, PairType)
            self._index = SpanPlaces(self.key.key)
            pairs = [pair for pair, _ in self.entries()]
            if pairs:
                keys, namespaces = self.key.to_array(pairs).flatten()
                groups = Grouper().group(keys)
                codes = np.arange(len(keys)) if groups.codes is None else groups.codes
                self._index.add(keys.take(pa.array(groups.rows)), codes, words_of(namespaces))
        return self._index

    def _pairs(self, places: Places) -> list[Any]:
        """The pairs at some places, as they are kept."""
        assert isinstance(self.key, PairType)
        index = self._known()
        arrays = [index.keys(places), words_as(self.key.namespace, index.starts(places))]
        return self.key.from_array(pa.StructArray.from_arrays(arrays, fields=list(self.key.arrow)))
