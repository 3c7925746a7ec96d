"""The first rows of each key in the order of some columns: a running top-n.

For each key the rows are kept, best first, and apart from them what the last of them is ordered by,
once there are as many as asked for. A row that is no better than that is left out by a comparison
of columns. What is left is sorted together with the rows that are kept, for all keys at once, and
the rows of every key that has changed are emitted with their ranks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.operators.keeping import Keeping, KeyedRows, Rows
from mainstay.runtime.spec import KeySpec
from mainstay.state.ordering import By, are_before, in_order

TOP, WORST = "top", "worst"


class Top(Keeping):
    """Emits the first ``n`` rows of each key for which they have changed in a batch."""

    def __init__(
        self,
        key: KeySpec,
        schema: pa.Schema,
        output_schema: pa.Schema,
        n: int,
        by: tuple[By, ...],
    ) -> None:
        super().__init__(key, schema)
        self._schema = output_schema
        self._n = n
        self._by = by

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._top, self._worst = self.state(TOP), self.state(WORST)

    def take(self, batch: pa.RecordBatch) -> None:
        batch = batch.filter(batch.column(self._by[0].column).is_valid())
        keys = self.reader.column(batch)
        rows = self.grouped(keys)
        if not rows.count:
            return
        better = self._better(batch, keys.take(pa.array(rows.first())), rows)
        if len(better):
            self._enter(batch.take(pa.array(better)))

    def _better(self, batch: pa.RecordBatch, keys: pa.Array, rows: KeyedRows) -> Rows:
        """The rows that come before the last of their key, or whose key has too few."""
        worst = self._worst.column(keys)
        if worst.null_count == len(worst):
            return np.arange(batch.num_rows)
        kept = worst.flatten() if len(self._by) > 1 else [worst]
        is_better = worst.is_null().to_numpy(zero_copy_only=False)[rows.codes]
        bounded = np.flatnonzero(~is_better)
        asked, codes = pa.array(bounded), pa.array(rows.codes[bounded])
        new = [batch.column(by.column).take(asked) for by in self._by]
        is_better[bounded] = are_before(new, [column.take(codes) for column in kept], self._by)
        found: Rows = np.flatnonzero(is_better)
        return found

    def _enter(self, batch: pa.RecordBatch) -> None:
        """Rows that each have a place among the first of their key, unless others of the batch
        take it."""
        keys = self.reader.column(batch)
        rows = self.grouped(keys)
        first = rows.first()
        distinct = keys.take(pa.array(first))
        kept = self._top.column(distinct)
        lengths = kept.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        merged = _concatenated(kept.flatten(), self.reader.visible(batch).to_struct_array())
        codes = np.concatenate([np.repeat(np.arange(rows.count), lengths), rows.codes])
        chosen, place = self._chosen(merged, codes)
        tops = merged.take(pa.array(chosen))
        self._keep(distinct, tops, codes[chosen], place)
        self._emit(distinct, codes[chosen], tops, place)

    def _chosen(self, rows: pa.StructArray, codes: Rows) -> tuple[Rows, Rows]:
        """The first rows of each key, key by key and best first, and the place of each from zero.

        What is kept comes before what is new, and so do equal values: those that came first.
        """
        by = [rows.field(each.column) for each in self._by]
        order = in_order(by, self._by, codes)
        starts = np.searchsorted(codes[order], np.arange(int(codes.max()) + 1))
        place = np.arange(len(order)) - starts[codes[order]]
        is_first = place < self._n
        return order[is_first], place[is_first]

    def _keep(self, keys: pa.Array, tops: pa.StructArray, codes: Rows, place: Rows) -> None:
        offsets = np.searchsorted(codes, np.arange(len(keys) + 1)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), tops, type=self._top.info.value.arrow)
        self._top.put_many(keys, lists)
        last: npt.NDArray[np.bool_] = place == self._n - 1
        full = keys.take(pa.array(codes[last]))
        self._worst.put_many(full, self._bound(tops.filter(pa.array(last))))

    def _bound(self, rows: pa.StructArray) -> pa.Array:
        """What rows are ordered by: one column, or several as a struct."""
        by = [rows.field(each.column) for each in self._by]
        if len(by) == 1:
            return by[0]
        return pa.StructArray.from_arrays(by, fields=list(self._worst.info.value.arrow))

    def _emit(self, keys: pa.Array, codes: Rows, tops: pa.StructArray, place: Rows) -> None:
        columns = tops.flatten()
        if self._key.hidden:
            columns = [keys.take(pa.array(codes)), *columns]
        columns.append(pa.array(place + 1, pa.int32()))
        self.out(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _concatenated(first: pa.StructArray, second: pa.StructArray) -> pa.StructArray:
    return pa.concat_arrays([first, second.cast(first.type)])
