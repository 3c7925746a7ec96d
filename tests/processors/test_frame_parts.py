"""Rows that are cut out of a DataFrame, by pandas' blocks and without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mainstay.spark.processors import frame_parts
from mainstay.spark.processors.frame_parts import cut, values_of

pytestmark = pytest.mark.parametrize("has_blocks", [True, False])


@pytest.fixture(autouse=True)
def _way(has_blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert frame_parts._HAS_BLOCKS, "this pandas has them"
    monkeypatch.setattr(frame_parts, "_HAS_BLOCKS", has_blocks)


def whole() -> Any:
    return pd.DataFrame(
        {
            "key": ["a", "b", "c", "d"],
            "n": np.arange(4),
            "x": [0.5, 1.5, None, 3.5],
            "at": pd.date_range("2026-01-01", periods=4),
            "more": np.arange(4),
        }
    )


def test_a_part_is_a_frame_that_is_numbered_from_0_on() -> None:
    part = cut(whole(), 1, 3)
    expected = pd.DataFrame(
        {
            "key": ["b", "c"],
            "n": [1, 2],
            "x": [1.5, None],
            "at": pd.date_range("2026-01-02", periods=2),
            "more": [1, 2],
        }
    )
    pd.testing.assert_frame_equal(part, expected)
    assert isinstance(part.index, pd.RangeIndex)


@pytest.mark.filterwarnings("error")
def test_what_is_done_to_a_part_is_done_to_its_rows_alone() -> None:
    frame = whole()
    part = cut(frame, 1, 3)
    part["n"] += 10
    part.loc[0, "more"] = -1
    part["new"] = 5
    part.columns.name, part.index.name = "columns", "rows"
    part.sort_values("n", ascending=False, inplace=True)
    pd.testing.assert_frame_equal(cut(frame, 0, 1), cut(whole(), 0, 1))
    pd.testing.assert_frame_equal(cut(frame, 3, 4), cut(whole(), 3, 4))
    assert list(frame.columns) == list(whole().columns)
    assert part["n"].tolist() == [12, 11]


def test_a_column_by_its_place() -> None:
    frame = whole()
    assert [list(values_of(frame, place)) for place in (0, 1)] == [
        ["a", "b", "c", "d"],
        [0, 1, 2, 3],
    ]
    assert values_of(frame, 1).dtype == np.int64
    assert values_of(frame, 3).dtype == "datetime64[ns]"
