"""A function of two rows over all rows of a window: the fold of what is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa

from mainstay.api.functions import WindowProcess
from mainstay.api.reduce import returned
from mainstay.runtime.operators.window_results import WindowBounds, WindowRows
from mainstay.runtime.row_context import ProcessContext
from mainstay.state.values import ValueType


@dataclass
class FoldRows(WindowProcess):
    """Gives the key, the bounds of the window, and some columns of the folded row."""

    function: Callable[[Any, Any], Any]
    columns: tuple[str, ...]
    keys: int
    bounds: tuple[str, ...]
    updates: bool

    def process(self, rows: WindowRows, window: WindowBounds, ctx: ProcessContext) -> Any:
        of_row = ValueType.of(pa.struct(list(rows.batch.schema)))
        assert of_row.thaw is not None
        as_row = of_row.thaw

        def fold(before: Any, row: Any) -> Any:
            after = self.function(before, row)
            with returned(after, ctx, row):
                return as_row(of_row.freeze(after))

        folded = reduce(fold, rows)
        key = (ctx.key,) if self.keys == 1 else tuple(ctx.key)
        bounds = (window.start, window.end) if self.bounds else ()
        final = (window.is_final,) if self.updates else ()
        return (*key, *bounds, *(folded[name] for name in self.columns), *final)
