from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.snapshot.statefile import StateTable
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.whole import to_rows, to_whole


def part(rows: list[tuple[Any, ...]], value: pa.DataType, *, is_map: bool = False) -> StateTable:
    """Rows of (key, op, [map_key,] value); the key-group of a key is its number."""
    names = ["key", "op", "map_key", "value"] if is_map else ["key", "op", "value"]
    types = {"key": pa.int64(), "op": pa.int8(), "map_key": pa.string(), "value": value}
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, types[name]) for name, c in zip(names, columns, strict=True)]
    return StateTable("state", pa.table(arrays, names=names), np.array(columns[0], np.uint16))


def test_a_list_in_pieces_becomes_one_row_in_order() -> None:
    value = pa.list_(pa.int64())
    older = part([(1, PUT, [1, 2]), (2, APPEND, [7]), (3, APPEND, [9])], value)
    newer = part([(1, APPEND, [3]), (2, APPEND, [8, None]), (3, DELETE, None)], value)
    whole = to_whole([older, newer], "list")
    assert whole is not None
    assert whole.table.to_pydict() == {"key": [1, 2], "value": [[1, 2, 3], [7, 8, None]]}
    assert whole.groups.tolist() == [1, 2]
    assert whole.table.schema == pa.schema([("key", pa.int64()), ("value", value)])


def test_what_was_deleted_is_not_there() -> None:
    older = part([(1, PUT, 5), (2, PUT, 6)], pa.int64())
    whole = to_whole([older, part([(1, DELETE, None)], pa.int64())], "value")
    assert whole is not None
    assert whole.table.to_pydict() == {"key": [2], "value": [6]}


def test_a_map_has_a_row_for_each_entry() -> None:
    older = part([(1, ENTRY_PUT, "a", 1), (1, ENTRY_PUT, "b", 2)], pa.int64(), is_map=True)
    newer = part([(1, ENTRY_REMOVE, "a", None), (1, ENTRY_PUT, "c", 3)], pa.int64(), is_map=True)
    whole = to_whole([older, newer], "map")
    assert whole is not None
    assert whole.table.to_pydict() == {"key": [1, 1], "map_key": ["b", "c"], "value": [2, 3]}
    assert to_rows(whole).table.column("op").to_pylist() == [ENTRY_PUT, ENTRY_PUT]


def test_where_nothing_is_left_there_is_nothing() -> None:
    assert to_whole([], "value") is None
    assert to_whole([part([(1, DELETE, None)], pa.int64())], "value") is None


def test_whole_state_is_put_back_as_the_columns_of_a_segment() -> None:
    table = part([(1, PUT, 5), (2, PUT, 6)], pa.int64())
    whole = to_whole([table], "value")
    assert whole is not None
    rows = to_rows(whole)
    assert rows.name == "state"
    assert rows.table.schema == table.table.schema
    assert rows.table.to_pydict() == table.table.to_pydict()
