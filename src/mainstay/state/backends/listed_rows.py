"""Rows by pane over a table of lists: for backends that keep something for each key.

Which keys a pane has is noted in memory, and found again from all entries after a restore. Rows are
values of lists to such a table, so each is converted by itself. A segment says of a pane that is
dropped just that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.state.codes import codes_of, grouped
from mainstay.state.dropping import DroppedPanes
from mainstay.state.info import StateInfo
from mainstay.state.rows import Chunk, Joined, as_struct, from_struct
from mainstay.state.values import ValueType


class ListedRows:
    """What stands before a table of lists that is kept by pairs of a key and a pane."""

    info: StateInfo
    key: Any
    on_joined: Joined | None = None
    """Chunks are made anew for each look, and none is joined."""
    dropped: DroppedPanes
    """What was dropped since the last cut; the table hands it out with its changes."""
    _noted: dict[int, dict[Any, None]] | None = None

    # What the table of lists does.
    append: Any
    put: Any
    delete: Any
    read: Any
    bring: Any
    entries: Any

    def panes(self) -> list[int]:
        return sorted(self._keys_by_pane())

    def chunks(self, pane: int, keys: pa.Array | None = None) -> Sequence[Chunk]:
        noted = self._keys_by_pane().get(pane)
        if not noted:
            return ()
        asked: Iterable[Any] = noted
        if keys is not None:
            asked = filter(noted.__contains__, dict.fromkeys(self._key_type.from_array(keys)))
        pairs = [(key, pane) for key in asked]
        self.bring(pairs)
        lists = [self.read(pair) or () for pair in pairs]
        lengths = [len(items) for items in lists]
        if not sum(lengths):
            return ()
        column = self.info.value.to_array([item for items in lists for item in items])
        taken = pa.array(np.repeat(np.arange(len(pairs)), lengths))
        found = self._key_type.to_array([key for key, _ in pairs]).take(taken)
        return [Chunk(found, from_struct(self.info, column))]

    def whole_pane(self, pane: int) -> Chunk | None:
        found = self.chunks(pane)
        return found[0] if found else None

    def append_rows(
        self, keys: pa.Array, rows: pa.RecordBatch, pane: int, note: Any = None
    ) -> None:
        noted = self._keys_by_pane().setdefault(pane, {})
        for key, items in self._lists(keys, rows):
            noted[key] = None
            self.append((key, pane), items)

    def put_rows(self, keys: pa.Array, rows: pa.RecordBatch, pane: int) -> None:
        noted = self._keys_by_pane().setdefault(pane, {})
        for key, items in self._lists(keys, rows):
            noted[key] = None
            self.put((key, pane), items)

    def drop_pane(self, pane: int) -> None:
        noted = self._keys_by_pane()
        if pane not in noted:
            return
        self.dropped.add(pane, is_lowest=pane == min(noted))
        for key in noted.pop(pane):
            self.delete((key, pane))

    @property
    def _key_type(self) -> ValueType:
        found: ValueType = self.key.key
        return found

    def _lists(self, keys: pa.Array, rows: pa.RecordBatch) -> Iterator[tuple[Any, list[Any]]]:
        """Each key with its rows as they are kept."""
        order, bounds = grouped(codes_of(keys))
        taken = pa.array(order)
        kept = self.info.value.from_array(as_struct(self.info, rows.take(taken)))
        firsts = self._key_type.from_array(keys.take(pa.array(order[bounds[:-1]])))
        ends = bounds.tolist()
        for key, start, end in zip(firsts, ends[:-1], ends[1:], strict=True):
            yield key, kept[start:end]

    def _keys_by_pane(self) -> dict[int, dict[Any, None]]:
        if self._noted is None:
            noted: dict[int, dict[Any, None]] = {}
            for (key, pane), _ in self.entries():
                noted.setdefault(pane, {})[key] = None
            self._noted = noted
        return self._noted

    def look_again(self) -> None:
        """Entries were changed from elsewhere."""
        self._noted = None
