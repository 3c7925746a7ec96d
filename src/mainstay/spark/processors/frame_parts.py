"""Parts of DataFrames: some rows as a DataFrame of their own, and a column as an array.

A function is called for each key, so this is a hot file (benchmarks/stateful_processor.py). pandas
keeps columns of one type together in a block. To cut blocks takes a quarter of the time that its
indexers take; but blocks are not public, so there is another way for a pandas without them.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

_HAS_BLOCKS = all(
    hasattr(owner, name)
    for owner, name in (
        (pd.DataFrame, "_from_mgr"),
        (getattr(pd.DataFrame(), "_mgr", None), "get_slice"),
        (getattr(pd.DataFrame(), "_mgr", None), "iget_values"),
        (pd.RangeIndex, "_simple_new"),
        (pd.Index, "_view"),
    )
)


def cut(frame: pd.DataFrame, start: int, end: int) -> pd.DataFrame:
    """Some rows, numbered from 0 on. What is done to them is done to those rows of ``frame``, and
    to no others; its labels are its own."""
    return _cut_blocks(frame, start, end) if _HAS_BLOCKS else _cut_publicly(frame, start, end)


def _cut_blocks(frame: Any, start: int, end: int) -> pd.DataFrame:
    blocks = frame._mgr.get_slice(slice(start, end), axis=1)
    blocks.axes = [frame.columns._view(), pd.RangeIndex._simple_new(range(end - start))]
    part: pd.DataFrame = pd.DataFrame._from_mgr(blocks, axes=blocks.axes)
    return part


def _cut_publicly(frame: pd.DataFrame, start: int, end: int) -> pd.DataFrame:
    part = frame.iloc[start:end]
    part.index = pd.RangeIndex(end - start)
    part.columns = frame.columns.view()
    # Nobody else has these rows, so pandas need not warn one who changes them.
    part._is_copy = None
    return part


def values_of(frame: Any, position: int) -> Any:
    """The values of a column, with their type: an array of numpy's or pandas', or a series."""
    return frame._mgr.iget_values(position) if _HAS_BLOCKS else frame.iloc[:, position]
