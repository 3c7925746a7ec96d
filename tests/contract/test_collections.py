"""Lists and maps of a key, as a user of Python's own lists and dictionaries expects them."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.errors import MainstayError, StateTypeError
from mainstay.state.declaration import ListState, MapState

TTLS = [None, "1 day"]


def lists(ttl: Any = None) -> dict[str, Any]:
    return {"items": ListState("array<int>", ttl=ttl)}


def maps(ttl: Any = None) -> dict[str, Any]:
    return {"m": MapState("string", "struct<n:int>", ttl=ttl)}


@pytest.mark.parametrize("ttl", TTLS)
def test_the_list_of_an_unknown_key_is_empty(open_backend: Any, ttl: Any) -> None:
    backend = open_backend(lists(ttl))
    assert backend.at("never seen").items.get() == []
    state = backend.at("a").items
    state.add([1])
    state.clear()
    assert state.get() == []
    reopened = open_backend.reopen(lists(ttl), backend.snapshot())
    assert reopened.at("a").items.get() == []


@pytest.mark.parametrize("ttl", TTLS)
def test_an_empty_list_is_the_callers_own(open_backend: Any, ttl: Any) -> None:
    state = open_backend(lists(ttl)).at("a").items
    state.get().append([5])
    assert state.get() == []


@pytest.mark.parametrize("ttl", TTLS)
def test_lists_of_many_keys_are_read_and_written_at_once(open_backend: Any, ttl: Any) -> None:
    backend = open_backend(lists(ttl))
    state = backend.states.items
    state.put_many(["a", "b", "c"], [[[1], [2]], [[3]], []])
    assert state.get_many(["c", "b", "a", "d"]) == [[], [[3]], [[1], [2]], []]
    assert backend.at("a").items.get() == [[1], [2]]
    state.put_many(["a", "b"], [None, [[4]]])
    reopened = open_backend.reopen(lists(ttl), backend.snapshot())
    assert reopened.states.items.get_many(["a", "b"]) == [[], [[4]]]


@pytest.mark.parametrize("ttl", TTLS)
def test_a_map_is_a_dictionary(open_backend: Any, ttl: Any) -> None:
    backend = open_backend(maps(ttl))
    state = backend.at("a").m
    assert (len(state), bool(state), list(state), "x" in state) == (0, False, [], False)
    state["x"] = (1,)
    state.update({"y": (2,)}, z=None)
    state.update([("w", (4,))])
    assert (len(state), bool(state), list(state)) == (4, True, ["x", "y", "z", "w"])
    assert ("z" in state, state["z"], state["y"].n) == (True, None, 2)
    assert dict(state) == {"x": (1,), "y": (2,), "z": None, "w": (4,)}
    del state["x"]
    assert (state.pop("y"), state.pop("y", "gone"), state.pop("z")) == ((2,), "gone", None)
    assert (state.setdefault("w", (0,)), state.setdefault("v", (5,)).n) == ((4,), 5)
    reopened = open_backend.reopen(maps(ttl), backend.snapshot())
    assert dict(reopened.at("a").m) == {"w": (4,), "v": (5,)}
    assert len(reopened.at("b").m) == 0


def test_an_absent_entry_is_a_key_error_with_a_remedy(open_backend: Any) -> None:
    state = open_backend(maps()).at("a").m
    for call in (lambda: state["x"], lambda: state.pop("x"), lambda: state.__delitem__("x")):
        with pytest.raises(KeyError, match=r"state 'm': the map of key 'a' has no entry 'x'.*get"):
            call()
    with pytest.raises(TypeError, match="one default"):
        state.pop("x", 1, 2)


def test_an_update_that_is_refused_leaves_a_map_as_it_was(open_backend: Any) -> None:
    state = open_backend(maps()).at("a").m
    for wrong in ({"x": (1,), "y": "no struct"}, {"x": (1,), None: (2,)}, None, "ab", 5):
        with pytest.raises(StateTypeError, match="state 'm'"):
            state.update(wrong)
    assert len(state) == 0


def test_maps_of_many_keys_are_read_and_written_at_once(open_backend: Any) -> None:
    backend = open_backend(maps())
    state = backend.states.m
    state.put_many(["a", "b"], [{"x": (1,)}, {"x": (2,), "y": None}])
    state.put_many(["a"], [{"z": (3,)}])
    assert state.get_many(["b", "c", "a"]) == [
        {"x": (2,), "y": None},
        {},
        {"x": (1,), "z": (3,)},
    ]
    with pytest.raises(StateTypeError, match="2 keys and 1 values"):
        state.put_many(["a", "b"], [{}])


def test_a_loop_over_the_keys_of_a_map_may_change_it(open_backend: Any) -> None:
    state = open_backend(maps()).at("a").m
    state.update({"x": (1,), "y": (2,)})
    for name in state:
        del state[name]
    assert not state


def test_the_length_of_a_large_map_counts_what_is_stored_and_what_has_changed(
    open_backend: Any,
) -> None:
    backend = open_backend({"m": MapState("long", "long")})
    backend.at("a").m.update({n: n for n in range(300)})
    reopened = open_backend.reopen({"m": MapState("long", "long")}, backend.snapshot())
    state = reopened.at("a").m
    state.put(1000, 1)
    state.remove(0)
    state.put(1, 5)
    assert (len(state), 1000 in state, 0 in state) == (300, True, False)


def test_a_declaration_that_is_not_bound_says_so() -> None:
    declared = MapState("string", "long")
    assert declared
    for call in (lambda: len(declared), lambda: "x" in declared, lambda: declared["x"]):
        with pytest.raises(MainstayError, match="outside a running job"):
            call()
