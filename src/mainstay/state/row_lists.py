"""Whole rows as what is accumulated: all of a group, or the best of it by some columns.

They are kept as a list of structs. The best are chosen by columns: of a batch, and again of what is
kept together with them, so that no more than those are ever kept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.state.accumulating import Collected, Column
from mainstay.state.aggregates import Accumulator
from mainstay.state.grouping import Groups
from mainstay.state.ordering import places

Numbers = npt.NDArray[np.int64]


class CollectedRows(Collected):
    """The list of all rows, in the order in which they came."""

    def first_partials(self, batch: pa.RecordBatch) -> pa.Array:
        columns = [batch.column(number) for number in self.accumulator.columns]
        rows = pa.StructArray.from_arrays(columns, fields=list(self.type.value_type))
        ends = pa.array(np.arange(len(rows) + 1, dtype=np.int32))
        return pa.ListArray.from_arrays(ends, rows, type=self.type)


class BestRows(CollectedRows):
    """The list of the best rows, the best first; of equal ones those that came first. Rows whose
    first column of the order is null have no rank."""

    def __init__(self, accumulator: Accumulator) -> None:
        super().__init__(accumulator)
        assert accumulator.best is not None
        self._best = accumulator.best

    def combine(self, partials: pa.Array, groups: Groups) -> Column:
        codes = np.arange(len(partials)) if groups.codes is None else groups.codes
        return self.from_arrow(self._chosen(partials, codes, groups.count))

    def merge(self, old: Column, new: Column) -> Column:
        codes = np.arange(len(old[0]))
        both = pa.concat_arrays([self.to_arrow(old), self.to_arrow(new)])
        return self.from_arrow(self._chosen(both, np.concatenate([codes, codes]), len(codes)))

    def _chosen(self, lists: pa.Array, codes: Numbers, count: int) -> pa.Array:
        """The best rows of the lists of each group."""
        rows = lists.flatten()
        of = np.repeat(codes, lists.value_lengths().fill_null(0).to_numpy())
        order_by = self._best.by
        if (by := rows.field(order_by[0].column)).null_count:
            ranked = by.is_valid()
            rows, of = rows.filter(ranked), of[ranked.to_numpy(zero_copy_only=False)]
        ranks = places([rows.field(each.column) for each in order_by], order_by)
        # The last of these says more, and sorting is stable: what came first stays first.
        order = np.lexsort((ranks, of))
        of, ranks = of[order], ranks[order]
        firsts: Numbers = np.flatnonzero(np.diff(of, prepend=-1))
        lengths = np.diff(firsts, append=len(of))
        place = np.arange(len(of)) - np.repeat(firsts, lengths)
        is_best = place < self._best.count
        if self._best.ties:
            last = firsts + np.minimum(lengths, self._best.count) - 1
            is_best |= ranks == np.repeat(ranks[last], lengths)
        ends = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(of[is_best], minlength=count), out=ends[1:])
        taken = rows.take(pa.array(order[is_best]))
        return pa.ListArray.from_arrays(pa.array(ends), taken, type=self.type)
