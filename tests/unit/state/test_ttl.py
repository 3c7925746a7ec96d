from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import GraphError, MainstayError
from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.declaration import ListState, ValueState
from mainstay.state.elements import without_expired
from mainstay.state.keyed import KeyContext
from mainstay.state.operations import (
    APPEND,
    DELETE,
    ENTRY_PUT,
    ENTRY_REMOVE,
    PUT,
    columns_of,
)
from mainstay.state.ttl import Ttl, stamped, stored_info, type_named
from mainstay.state.values import ValueType


@pytest.mark.parametrize(
    ("given", "lifetime_us"),
    [("7 days", 7 * 86_400_000_000), ("30 min", 1_800_000_000), (1.5, 1_500_000), ("2ms", 2000)],
)
def test_a_time_to_live_is_a_duration_as_anywhere_else(given: Any, lifetime_us: int) -> None:
    ttl = ListState("string", ttl=given).info().ttl
    assert ttl is not None
    assert ttl.lifetime_us == lifetime_us
    assert not ttl.is_read


@pytest.mark.parametrize("given", ["soon", "-1 s", 0, "0 days", "7", 1e-9])
def test_what_is_no_duration_is_refused(given: Any) -> None:
    with pytest.raises(GraphError, match=r"ttl="):
        ValueState("long", ttl=given)


def test_an_unknown_way_of_updating_is_refused_with_the_known_ones() -> None:
    with pytest.raises(GraphError, match=r'"write", or from each "read"'):
        Ttl("1 s", update="never")


@pytest.mark.parametrize("ddl", ["long", "pickle", "struct<a:array<int>>", "ttl<ttl<string>>"])
def test_a_stamped_type_is_found_by_its_name_and_survives_pickling(ddl: str) -> None:
    made = stamped(type_named(ddl))
    assert type_named(made.ddl).arrow == made.arrow
    assert pickle.loads(pickle.dumps(made)).ddl == made.ddl == f"ttl<{ddl}>"


@pytest.mark.parametrize(
    ("inner", "kept"),
    [
        ("long", [(5, 1), None, (7, None)]),
        ("array<string>", [(5, ("a", "b")), None, (6, ())]),
        ("pickle", [(5, "text"), None, (6, 7)]),
    ],
)
def test_stamped_elements_come_back_as_they_were(inner: str, kept: list[Any]) -> None:
    made = stamped(type_named(inner))
    array = made.to_array(kept)
    assert made.from_array(array) == kept
    assert made.from_array(pa.chunked_array([array.slice(0, 1), array.slice(1)])) == kept


def test_a_state_without_a_time_to_live_is_stored_as_before() -> None:
    info = ValueState("long").info()
    assert stored_info(info) is info
    stored = stored_info(ListState("long", ttl="1 s").info())
    key = ValueType.of("string")
    assert columns_of(info, key).field("value").type == pa.int64()
    assert columns_of(stored, key).field("value").type == pa.list_(
        pa.struct([("at", pa.int64()), ("value", pa.int64())])
    )


def test_a_state_with_a_time_to_live_needs_a_clock() -> None:
    context = KeyContext()
    backend = HeapBackend(
        [ValueState("long", ttl="1 s").info()], ValueType.of("string"), 128, context
    )
    context.current_key = "a"
    with pytest.raises(MainstayError, match=r"no clock"):
        backend.handles["?"].update(1)


# ---------------------------------------------------------------- columns


def rows(kind: str, codes: list[int], values: list[Any]) -> StateTable:
    element = stamped(ValueType.of("long")).arrow
    arrow = pa.list_(element) if kind == "list" else element
    columns = {"key": pa.array(["a"] * len(codes)), "op": pa.array(codes, pa.int8())}
    if kind == "map":
        columns["map_key"] = pa.array(range(len(codes)))
    table = pa.table({**columns, "value": pa.array(values, arrow)})
    return StateTable("s", table, np.arange(len(codes), dtype=np.uint16))


def one(at: int) -> dict[str, int]:
    return {"at": at, "value": 1}


def test_a_value_that_has_expired_becomes_a_deletion() -> None:
    given = rows("value", [PUT, PUT, DELETE], [one(10), one(11), None])
    found = without_expired(given, "value", 10).table
    assert found.column("op").to_pylist() == [DELETE, PUT, DELETE]
    assert found.column("value").to_pylist() == [None, one(11), None]


def test_an_entry_that_has_expired_becomes_a_removal() -> None:
    given = rows("map", [ENTRY_PUT, ENTRY_PUT, DELETE], [one(10), one(11), None])
    found = without_expired(given, "map", 10).table
    assert found.column("op").to_pylist() == [ENTRY_REMOVE, ENTRY_PUT, DELETE]


def test_elements_of_lists_expire_in_their_places() -> None:
    given = rows(
        "list",
        [PUT, PUT, APPEND, APPEND, DELETE],
        [[one(9), one(12)], [one(9)], [one(9)], [one(9), one(13)], None],
    )
    found = without_expired(given, "list", 10)
    assert found.table.column("op").to_pylist() == [PUT, DELETE, APPEND, DELETE]
    assert found.table.column("value").to_pylist() == [[one(12)], [], [one(13)], []]
    assert found.groups.tolist() == [0, 1, 3, 4]


def test_rows_of_which_nothing_has_expired_are_left_alone() -> None:
    given = rows("value", [PUT, DELETE], [one(11), None])
    assert without_expired(given, "value", 10) is given
