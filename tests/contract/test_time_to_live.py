"""What every keyed backend must do with states that have a time to live.

A backend keeps such a state as one of another type and offers ``survey`` on its tables; these tests
say what follows from it. The clock stands still unless a test moves it.
"""

from __future__ import annotations

import operator
from typing import Any

import pytest

from mainstay.snapshot.manifest import StateSchema
from mainstay.state.declaration import (
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from mainstay.state.ttl import Ttl
from tests.contract.conftest import OpenBackend
from tests.contract.keyed_states import average_state

DAY = 86_400.0


def all_kinds(ttl: Any = "1 day") -> dict[str, Any]:
    return {
        "value": ValueState("long", ttl=ttl),
        "anything": ValueState(ttl=ttl),
        "items": ListState("string", ttl=ttl),
        "by_page": MapState("string", "struct<n:int>", ttl=ttl),
        "total": ReducingState("long", operator.add, ttl=ttl),
        "mean": average_state(ttl),
    }


def fill(states: Any, number: int) -> None:
    states.value.update(number)
    states.anything.update({"n": number})
    states.items.extend([f"a{number}", f"b{number}"])
    states.by_page.put("page", (number,))
    states.by_page.put("none", None)
    states.total.add(number)
    states.mean.add(float(number))


def contents(states: Any) -> dict[str, Any]:
    return {
        "value": states.value.get(),
        "anything": states.anything.get(),
        "items": states.items.get(),
        "by_page": dict(states.by_page.items()),
        "total": states.total.get(),
        "mean": states.mean.get(),
    }


def filled(number: int) -> dict[str, Any]:
    return {
        "value": number,
        "anything": {"n": number},
        "items": [f"a{number}", f"b{number}"],
        "by_page": {"page": (number,), "none": None},
        "total": number,
        "mean": float(number),
    }


EMPTY = {
    "value": None,
    "anything": None,
    "items": [],
    "by_page": {},
    "total": None,
    "mean": None,
}


def test_what_is_written_is_there_until_its_time_is_over_and_not_after(open_backend: OpenBackend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    open_backend.clock.now += DAY - 1
    assert contents(backend.at("a")) == filled(1)
    open_backend.clock.now += 1
    assert contents(backend.at("a")) == EMPTY
    assert all(backend.contents(name) == {} for name in EMPTY)


def test_expired_values_are_not_given_in_bulk_or_by_name(open_backend: OpenBackend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    open_backend.clock.now += DAY
    fill(backend.at("b"), 2)
    assert backend.states.value.get_many(["a", "b", "c"], -1) == [-1, 2, -1]
    states = backend.at("a")
    assert not states.by_page.contains("page")
    assert states.by_page.get("page", "nothing") == "nothing"
    assert [*states.by_page.keys(), *states.by_page.values()] == []


def test_a_write_prolongs_and_a_read_does_not(open_backend: OpenBackend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    fill(backend.at("b"), 2)
    open_backend.clock.now += DAY / 2
    assert contents(backend.at("a")) == filled(1)
    backend.at("b").value.update(3)
    open_backend.clock.now += DAY / 2
    assert backend.at("a").value.get() is None
    assert backend.at("b").value.get() == 3


def test_a_read_prolongs_where_that_was_asked_for(open_backend: OpenBackend):
    backend = open_backend(all_kinds(Ttl("1 day", update="read")))
    fill(backend.at("a"), 1)
    fill(backend.at("b"), 2)
    for _ in range(3):
        open_backend.clock.now += DAY / 2
        assert contents(backend.at("a")) == filled(1)
        assert backend.states.value.get_many(["a"]) == [1]
    assert contents(backend.at("b")) == EMPTY


def test_elements_of_a_list_and_entries_of_a_map_expire_one_by_one(open_backend: OpenBackend):
    backend = open_backend(all_kinds())
    states = backend.at("a")
    states.items.add("old")
    states.by_page.put("old", (1,))
    open_backend.clock.now += DAY / 2
    states.items.add("new")
    states.by_page.put("new", (2,))
    open_backend.clock.now += DAY / 2
    assert states.items.get() == ["new"]
    assert dict(states.by_page.items()) == {"new": (2,)}
    assert list(states.by_page.keys()) == ["new"]
    assert (len(states.by_page), "old" in states.by_page) == (1, False)
    with pytest.raises(KeyError):
        states.by_page["old"]
    assert backend.states.items.get_many(["a", "b"]) == [["new"], []]
    assert backend.states.by_page.get_many(["a", "b"]) == [{"new": (2,)}, {}]


def test_to_ask_how_many_or_whether_prolongs_nothing(open_backend: OpenBackend):
    backend = open_backend(all_kinds(Ttl("1 day", update="read")))
    states = backend.at("a")
    states.by_page.put("page", (1,))
    open_backend.clock.now += DAY / 2
    assert (len(states.by_page), "page" in states.by_page, list(states.by_page)) == (
        1,
        True,
        ["page"],
    )
    open_backend.clock.now += DAY / 2
    assert len(states.by_page) == 0
    assert not states.by_page


def test_a_reduction_begins_anew_after_the_old_one_has_expired(open_backend: OpenBackend):
    backend = open_backend(all_kinds())
    states = backend.at("a")
    states.total.add(5)
    states.mean.add(10.0)
    open_backend.clock.now += DAY
    states.total.add(1)
    states.mean.add(2.0)
    assert (states.total.get(), states.mean.get()) == (1, 2.0)


@pytest.mark.parametrize("rewrite", [False, True])
def test_a_restore_resurrects_nothing(open_backend: OpenBackend, rewrite: bool):
    backend = open_backend(all_kinds())
    fill(backend.at("old"), 1)
    open_backend.clock.now += DAY / 2
    fill(backend.at("new"), 2)
    epoch = backend.snapshot()
    open_backend.clock.now += DAY / 2
    restored = open_backend.reopen(all_kinds(), epoch, rewrite=rewrite)
    assert contents(restored.at("old")) == EMPTY
    assert contents(restored.at("new")) == filled(2)
    open_backend.clock.now += DAY / 2
    assert contents(restored.at("new")) == EMPTY


def test_a_sweep_deletes_what_has_expired_from_memory_and_from_snapshots(
    open_backend: OpenBackend,
):
    backend = open_backend(all_kinds())
    for number in range(50):
        fill(backend.at(f"old{number}"), number)
    backend.at("mixed").items.add("old")
    backend.at("mixed").by_page.put("old", (1,))
    backend.snapshot()
    open_backend.clock.now += DAY / 2
    fill(backend.at("new"), 2)
    backend.at("mixed").items.add("new")
    backend.at("mixed").by_page.put("new", (2,))
    open_backend.clock.now += DAY / 2
    assert not backend.sweep()
    epoch = backend.snapshot()
    # Read as if no time had passed: what was deleted is gone, not only hidden.
    open_backend.clock.now -= DAY / 2
    restored = open_backend.reopen(all_kinds(), epoch)
    for seen in (backend, restored):
        assert seen.contents("value") == {"new": 2}
        assert seen.contents("total") == {"new": 2}
        assert seen.contents("mean") == {"new": 2.0}
        assert seen.contents("items") == {"new": ["a2", "b2"], "mixed": ["new"]}
        assert seen.contents("by_page") == {
            "new": {"page": (2,), "none": None},
            "mixed": {"new": (2,)},
        }


def test_a_sweep_looks_at_some_elements_and_goes_on_where_it_stopped(open_backend: OpenBackend):
    backend = open_backend({"value": ValueState("long", ttl="1 day")})
    for number in range(100):
        backend.at(f"k{number}").value.update(number)
    backend.snapshot()
    backend.tend()
    open_backend.clock.now += DAY
    assert backend.member.expiry is not None
    sweeper = backend.member.expiry._sweeper
    slices = 0
    while sweeper.slice(30):
        slices += 1
        # Written between two slices: what counts again must not be deleted.
        backend.at("k99").value.update(slices)
    assert slices == 3
    assert backend.contents("value") == {"k99": 3}


def test_compaction_drops_what_has_expired(open_backend: OpenBackend):
    backend = open_backend(all_kinds())
    fill(backend.at("old"), 1)
    backend.snapshot()
    open_backend.clock.now += DAY / 2
    fill(backend.at("new"), 2)
    backend.at("old").items.add("late")
    backend.snapshot()
    open_backend.clock.now += DAY / 2
    if {"rocksdb", "external"} & set(type(backend.keyed.backend).__module__.split(".")):
        # What lies in a database goes by sweeping; its base is what it holds.
        backend.sweep()
        backend.snapshot()
    assert backend.compact()
    epoch = backend.snapshot()
    open_backend.clock.now -= DAY / 2
    restored = open_backend.reopen(all_kinds(), epoch)
    assert restored.contents("value") == {"new": 2}
    assert restored.contents("items") == {"new": ["a2", "b2"], "old": ["late"]}
    assert restored.contents("by_page") == {"new": {"page": (2,), "none": None}}


def stored(states: dict[str, Any], ttl_us: int | None) -> Any:
    from mainstay.runtime.upgrading import StoredAs

    schemas = []
    for name, state in states.items():
        info = state.info()
        key = None if info.map_key is None else info.map_key.ddl
        schemas.append(StateSchema(name, info.kind.name, info.value.ddl, key, None, ttl_us))
    return StoredAs("string", tuple(schemas))


def restart(open_backend: OpenBackend, epoch: Any, before: Any, after: Any) -> Any:
    """Restored with other times to live than what was stored has."""
    lifetimes = {state.info().ttl and state.info().ttl.lifetime_us for state in before.values()}
    stored_as = stored(before, lifetimes.pop())
    (opened,) = open_backend.restore(after, [epoch], rewrite=True, stored_as=stored_as)
    return opened


def test_a_time_to_live_that_is_added_counts_from_the_restore(open_backend: OpenBackend):
    backend = open_backend(all_kinds(None))
    fill(backend.at("a"), 1)
    epoch = backend.snapshot()
    open_backend.clock.now += 10 * DAY
    restored = restart(open_backend, epoch, all_kinds(None), all_kinds())
    open_backend.clock.now += DAY - 1
    assert contents(restored.at("a")) == filled(1)
    again = open_backend.reopen(all_kinds(), restored.snapshot())
    assert contents(again.at("a")) == filled(1)
    open_backend.clock.now += 1
    assert contents(again.at("a")) == EMPTY


@pytest.mark.parametrize("after", [None, "30 days"])
def test_a_time_to_live_that_is_removed_or_prolonged_resurrects_nothing(
    open_backend: OpenBackend, after: Any
):
    backend = open_backend(all_kinds())
    fill(backend.at("old"), 1)
    backend.snapshot()
    open_backend.clock.now += DAY / 2
    fill(backend.at("new"), 2)
    backend.at("old").items.add("late")
    epoch = backend.snapshot()
    open_backend.clock.now += DAY / 2
    restored = restart(open_backend, epoch, all_kinds(), all_kinds(after))
    open_backend.clock.now += 10 * DAY
    assert contents(restored.at("old")) == {**EMPTY, "items": ["late"]}
    assert contents(restored.at("new")) == filled(2)


def test_states_with_and_without_a_time_to_live_live_side_by_side(open_backend: OpenBackend):
    backend = open_backend({"kept": ValueState("long"), "gone": ValueState("long", ttl="1 day")})
    backend.at("a").kept.update(1)
    backend.at("a").gone.update(2)
    open_backend.clock.now += DAY
    backend.sweep()
    restored = open_backend.reopen(
        {"kept": ValueState("long"), "gone": ValueState("long", ttl="1 day")}, backend.snapshot()
    )
    assert (restored.at("a").kept.get(), restored.at("a").gone.get()) == (1, None)
