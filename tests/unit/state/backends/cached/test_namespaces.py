"""Row keys of states with a namespace: one range for each key, in the order of the namespaces."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.state.backends.cached.namespaces import NamespacedRowKeys
from mainstay.state.backends.cached.rows import RowKeys, prefix_end
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType

GROUPS = 128


def row_keys(key: str, namespace: str) -> NamespacedRowKeys:
    stored = StoredKey.of(ValueType.of(key), ValueType.of(namespace))
    return NamespacedRowKeys(7, stored, GROUPS)


def test_the_bytes_of_a_row_key_never_change() -> None:
    (found,) = row_keys("string", "long").of([("ab", -1)])
    group = StoredKey.of(ValueType.of("string")).groups(pa.array(["ab"]), GROUPS)[0]
    head = int(group).to_bytes(2, "big") + b"\0\7"
    assert found == head + b"\3\0\0\0\1ab" + b"\x7f\xff\xff\xff\xff\xff\xff\xff"
    (found,) = row_keys("long", "string").of([(3, "xy")])
    assert found[2:] == b"\0\7" + b"\t\0\0\0\1\3\0\0\0\0\0\0\0" + b"\2\0\0\0xy"


@given(st.text(), st.lists(st.integers(-(1 << 63), (1 << 63) - 1), unique=True, min_size=2))
def test_namespaces_of_a_key_lie_in_their_order(key: str, namespaces: list[int]) -> None:
    rows = row_keys("string", "long")
    found = rows.of([(key, namespace) for namespace in namespaces])
    in_order = rows.keys(sorted(found))
    assert [namespace for _, namespace in in_order] == sorted(namespaces)


MOMENTS: dict[str, list[Any]] = {
    "int": [-(1 << 31), -1, 0, 5],
    "date": [date(1960, 1, 1), date(1970, 1, 1), date(2100, 1, 1)],
    "timestamp": [datetime(y, 6, 1, tzinfo=timezone.utc) for y in (1950, 1971, 2050)],
}


@pytest.mark.parametrize("namespace", MOMENTS)
def test_dates_timestamps_and_narrow_numbers_lie_in_their_order_too(namespace: str) -> None:
    rows = row_keys("long", namespace)
    kept = list(map(ValueType.of(namespace).freeze, MOMENTS[namespace]))
    found = rows.of([(1, each) for each in reversed(kept)])
    assert [each for _, each in rows.keys(sorted(found))] == kept


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(-3, 3)), min_size=1))
def test_the_range_of_a_key_has_its_rows_and_no_others(pairs: list[tuple[str, int]]) -> None:
    rows = row_keys("string", "long")
    found = dict(zip(rows.of(pairs), pairs, strict=True))
    for key, _ in pairs:
        start = rows.range_of(key)
        inside = {pair for row, pair in found.items() if start <= row < prefix_end(start)}
        assert inside == {pair for pair in pairs if pair[0] == key}


@pytest.mark.parametrize("namespace", ["long", "string"])
def test_the_row_of_a_maps_entry_is_divided_again(namespace: str) -> None:
    rows = row_keys("string", namespace)
    pair = ("k", 5 if namespace == "long" else "\0")
    (prefix,) = rows.of([pair])
    assert rows.entry_cell(prefix + b"cell") == (prefix, b"cell")
    assert rows.keys([prefix]) == [pair]


def test_a_column_gives_what_single_pairs_give_by_the_group_of_the_key() -> None:
    stored = StoredKey.of(ValueType.of("long"), ValueType.of("long"))
    rows = NamespacedRowKeys(7, stored, GROUPS)
    pairs = [(key, key % 3) for key in range(100)]
    column = stored.type.to_array(pairs)
    groups = stored.groups(column, GROUPS)
    assert rows.of_column(column, groups) == [rows.of([pair])[0] for pair in pairs]
    alone = RowKeys(7, StoredKey.of(stored.key), GROUPS, is_map=False)
    expected = [row[:4] for row in alone.of([key for key, _ in pairs])]
    assert [row[:4] for row in rows.of(pairs)] == expected
