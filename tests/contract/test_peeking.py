"""Every backend shows what it keeps for a key, to those who look from outside, without a trace."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from mainstay.state.declaration import (
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from mainstay.state.ttl import Ttl
from mainstay.state.values import ValueType
from mainstay.state.whole import to_whole
from tests.contract.conftest import BackendUnderTest, OpenBackend, last
from tests.contract.keyed_states import average_state

DAY = 86_400.0


def kinds(ttl: Any = None) -> dict[str, Any]:
    return {
        "value": ValueState("long", ttl=ttl),
        "array": ValueState("array<long>", ttl=ttl),
        "anything": ValueState(ttl=ttl),
        "items": ListState("array<string>", ttl=ttl),
        "by_page": MapState("string", "array<int>", ttl=ttl),
        "total": ReducingState("long", operator.add, ttl=ttl),
        "mean": average_state(ttl),
    }


NOTHING = {
    "value": None,
    "array": None,
    "anything": None,
    "items": [],
    "by_page": {},
    "total": None,
    "mean": None,
}
FILLED = {
    "value": 7,
    "array": [1, 2],
    "anything": {"n": [7]},
    "items": [["a"], ["b"]],
    "by_page": {"page": [7], "none": None},
    "total": 12,
    "mean": 6.0,
}


def fill(states: Any) -> None:
    states.value.update(7)
    states.array.update([1, 2])
    states.anything.update({"n": [7]})
    states.items.extend([["a"], ["b"]])
    states.by_page.put("page", [7])
    states.by_page.put("none", None)
    for number in (5, 7):
        states.total.add(number)
        states.mean.add(float(number))


def peeked(backend: BackendUnderTest, key: Any) -> dict[str, Any]:
    return {name: backend.keyed.backend.peek(name, key) for name in NOTHING}


def is_unchanged(backend: BackendUnderTest) -> bool:
    return backend.keyed.backend.freeze() == {}


@pytest.mark.parametrize("ttl", [None, "1 day", Ttl("1 day", update="read")])
def test_a_look_gives_what_get_would_give_wherever_the_state_lies(
    open_backend: OpenBackend, ttl: Any
) -> None:
    backend = open_backend(kinds(ttl))
    assert peeked(backend, "a") == NOTHING
    fill(backend.at("a"))
    assert peeked(backend, "a") == FILLED
    cut = backend.freeze()
    assert peeked(backend, "a") == FILLED
    state = backend.write(cut)
    backend.tend()
    assert peeked(backend, "a") == FILLED
    assert peeked(backend, "b") == NOTHING
    again = open_backend.reopen(kinds(ttl), state)
    assert peeked(again, "a") == FILLED
    assert is_unchanged(again)


def test_what_was_deleted_is_not_seen(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds())
    fill(backend.at("a"))
    backend = open_backend.reopen(kinds(), backend.snapshot())
    states = backend.at("a")
    for name in NOTHING:
        getattr(states, name).clear()
    assert peeked(backend, "a") == NOTHING
    backend.snapshot()
    backend.tend()
    assert peeked(backend, "a") == NOTHING


def test_a_change_of_what_a_look_gave_changes_nothing(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds())
    fill(backend.at("a"))
    backend.snapshot()
    found = peeked(backend, "a")
    found["array"].append(3)
    found["anything"]["n"].append(8)
    found["items"][0].append("c")
    found["items"].append(["d"])
    found["by_page"]["page"].append(8)
    found["by_page"]["other"] = [1]
    assert peeked(backend, "a") == FILLED


@pytest.mark.parametrize("ttl", ["1 day", Ttl("1 day", update="read")])
def test_a_look_keeps_nothing_alive_and_shows_nothing_that_has_expired(
    open_backend: OpenBackend, ttl: Any
) -> None:
    backend = open_backend(kinds(ttl))
    fill(backend.at("a"))
    backend.snapshot()
    open_backend.clock.now += 0.9 * DAY
    assert peeked(backend, "a") == FILLED
    assert is_unchanged(backend)
    backend.at("a").items.add(["later"])
    backend.at("a").by_page.put("later", [1])
    open_backend.clock.now += 0.2 * DAY
    expected = {**NOTHING, "items": [["later"]], "by_page": {"later": [1]}}
    assert peeked(backend, "a") == expected
    assert backend.at("a").value.get() is None


def test_a_look_caches_nothing_and_evicts_nothing(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds())
    for key in ("a", "b"):
        fill(backend.at(key))
    backend = open_backend.reopen(kinds(), backend.snapshot())
    assert backend.at("b").value.get() == 7
    tables = backend.keyed.backend.tables.values()
    cached = [dict.copy(table.live) for table in tables if hasattr(table, "live")]
    peeked(backend, "a")
    peeked(backend, "missing")
    assert [dict.copy(table.live) for table in tables if hasattr(table, "live")] == cached


def test_keys_of_several_columns_and_no_key_at_all_are_looked_up(open_backend: OpenBackend) -> None:
    key = "struct<a:string,b:long>"
    backend = open_backend({"n": ValueState("long")}, key=key)
    for kept in (("x", 1), ("x", None)):
        backend.at(kept).n.update(5)
        assert backend.keyed.backend.peek("n", kept) == 5
    backend = open_backend({"n": ValueState("long")}, key="long")
    backend.at(None).n.update(6)
    assert backend.keyed.backend.peek("n", None) == 6


# ---------------------------------------------------------------- looks, for queries


def looked(backend: BackendUnderTest, look: Any, name: str) -> list[Any]:
    """What a look comes to as rows: the keys, map keys and values."""
    info = backend.keyed.states[name]
    rows = look.rows(info, ValueType.of("string"), 128)
    whole = to_whole([rows], info.kind.stored_as)
    return [] if whole is None else whole.table.to_pylist()


@pytest.mark.parametrize("ttl", [None, "1 day"])
def test_looks_give_the_rows_that_a_segment_would_have(open_backend: OpenBackend, ttl: Any) -> None:
    backend = open_backend(kinds(ttl))
    for key in ("a", "b"):
        fill(backend.at(key))
    (segment,) = backend.freeze().segments
    (tables,) = last(backend.keyed.encode(segment))
    stored = {table.name: table for table in tables}
    for name in ("value", "array", "items", "by_page", "total", "mean"):
        whole = to_whole([stored[name]], backend.keyed.states[name].kind.stored_as)
        assert whole is not None
        expected = sorted(whole.table.to_pylist(), key=repr)
        look = backend.keyed.backend.look_at(name, ["a", "b", "nobody"])
        assert sorted(looked(backend, look, name), key=repr) == expected
        around = backend.keyed.backend.look_around(name, 10)
        assert sorted(looked(backend, around, name), key=repr) == expected
        assert len({row["key"] for row in looked(backend, around, name)}) == 2
        one = looked(backend, backend.keyed.backend.look_around(name, 1), name)
        assert len({row["key"] for row in one}) == 1


def test_a_look_shows_nothing_that_has_expired(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds("1 day"))
    fill(backend.at("a"))
    open_backend.clock.now += 1.1 * DAY
    for name in ("value", "items", "by_page"):
        assert looked(backend, backend.keyed.backend.look_at(name, ["a"]), name) == []


def test_a_look_is_not_changed_by_what_comes_after_it(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds())
    fill(backend.at("a"))
    looks = {name: backend.keyed.backend.look_at(name, ["a"]) for name in ("items", "by_page")}
    before = {name: looked(backend, look, name) for name, look in looks.items()}
    backend.at("a").items.add(["later"])
    backend.at("a").by_page.put("later", [1])
    assert {name: looked(backend, look, name) for name, look in looks.items()} == before
