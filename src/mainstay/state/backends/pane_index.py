"""Panes of a table that keeps a row for each pair of key and namespace: which keys are in which.

The index is in memory, also where the rows are not: so the keys of open panes are. It is made from
all rows when it is first needed after a restore. A segment says of a pane that is dropped just
that; a database is told of its keys one by one, which are in the changes of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.accumulating import Accumulating, Column
from mainstay.state.columns import words_as
from mainstay.state.dropping import DroppedPanes
from mainstay.state.grouping import words_of
from mainstay.state.info import StateInfo
from mainstay.state.stored_key import PairType
from mainstay.state.values import ValueType

_BEFORE = -1
"""The segment of what may be in any file."""


class IndexedPanes:
    """What such a table has more; a table inherits from it first."""

    info: StateInfo
    key: ValueType
    parts: list[Accumulating]
    segment = 0
    """Counts the segments that were frozen."""
    dropped: DroppedPanes
    """What was dropped since the last cut; the table hands it out with its changes."""
    _index: dict[int, dict[Any, int]] | None = None
    """By namespace its keys, with the segment in which each came."""

    # ------------------------------------------------------------ what the table does

    entries: Any
    read_many: Any
    delete: Any

    def fold_pairs(self, pairs: pa.Array, partials: Sequence[Column]) -> list[Column]:
        """Merge partial results into the rows of distinct pairs."""
        raise NotImplementedError

    def unsay(self, pair: Any) -> None:
        """Forget a pair that no frozen segment has."""
        raise NotImplementedError

    def is_deleted(self, pair: Any) -> bool:
        """Whether the active segment says of a pair without a row that it is deleted."""
        raise NotImplementedError

    def came(self, pairs: list[Any]) -> None:
        """Pairs that had no row are about to get one."""

    # ------------------------------------------------------------ panes

    def fold(self, pairs: pa.Array, partials: Sequence[Column]) -> list[Column]:
        self._enter(pairs)
        return self.fold_pairs(pairs, partials)

    def fold_into(
        self,
        keys: pa.Array,
        codes: npt.NDArray[np.int64],
        namespaces: npt.NDArray[np.int64],
        partials: Sequence[Column],
    ) -> None:
        assert isinstance(self.key, PairType)
        arrays = [keys.take(pa.array(codes)), words_as(self.key.namespace, namespaces)]
        self.fold(pa.StructArray.from_arrays(arrays, fields=list(self.key.arrow)), partials)

    def panes(self) -> list[int]:
        return sorted(self._known())

    def pane(self, namespace: int) -> tuple[pa.Array, list[Column]]:
        assert isinstance(self.key, PairType)
        pairs = list(self._pairs(namespace, self._known()[namespace]))
        fields = self.info.value.to_array(self.read_many(pairs, None)).flatten()
        columns = [part.from_arrow(field) for part, field in zip(self.parts, fields, strict=True)]
        return self.key.key.to_array([key for key, _ in pairs]), columns

    def drop(self, namespace: int) -> None:
        is_lowest = namespace == min(self._known())
        keys = self._known().pop(namespace)
        for pair, segment in zip(self._pairs(namespace, keys), keys.values(), strict=True):
            self.unsay(pair) if segment == self.segment else self.delete(pair)
        if any(segment != self.segment for segment in keys.values()):
            self.dropped.add(namespace, is_lowest=is_lowest)

    # ------------------------------------------------------------ the index

    def forget_index(self) -> None:
        """Rows were changed by others."""
        self._index = None

    def _known(self) -> dict[int, dict[Any, int]]:
        if self._index is None:
            self._index = {}
            pairs = [pair for pair, _ in self.entries()]
            for namespace, (key, _) in zip(self._words(pairs), pairs, strict=True):
                self._index.setdefault(namespace, {})[key] = _BEFORE
        return self._index

    def _enter(self, pairs: pa.Array) -> None:
        index = self._known()
        new = []
        words = words_of(pairs.field(1)).tolist()
        for namespace, pair in zip(words, self.key.from_array(pairs), strict=True):
            keys = index.setdefault(namespace, {})
            if pair[0] not in keys:
                keys[pair[0]] = _BEFORE if self.is_deleted(pair) else self.segment
                new.append(pair)
        self.came(new)

    def _words(self, pairs: list[Any]) -> list[int]:
        return words_of(self.key.to_array(pairs).field(1)).tolist() if pairs else []

    def _pairs(self, namespace: int, keys: Iterable[Any]) -> Iterator[Any]:
        assert isinstance(self.key, PairType)
        (kept,) = self.key.namespace.from_array(
            words_as(self.key.namespace, np.array([namespace], np.int64))
        )
        return ((key, kept) for key in keys)
