"""Single entries of map state: what one asks for is right, wherever its latest change lies."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from mainstay.state.declaration import MapState
from mainstay.state.keyed import ABSENT

DECLARED = {"m": MapState("long", "long")}
KEYS, ENTRIES = 4, 6


@pytest.mark.parametrize("seed", range(6))
def test_entries_are_those_of_a_plain_dictionary(open_backend: Any, seed: int) -> None:
    """Changes, reads of one and of all, snapshots and checkpoints, in any order."""
    chance = random.Random(seed)
    backend = open_backend(DECLARED, key="long")
    model: dict[int, dict[int, Any]] = {key: {} for key in range(KEYS)}
    for step in range(300):
        key, name = chance.randrange(KEYS), chance.randrange(ENTRIES)
        state, expected = backend.at(key).m, model[key]
        match chance.randrange(12):
            case 0 | 1 | 2:
                state.put(name, step if step % 7 else None)
                expected[name] = step if step % 7 else None
            case 3:
                state.remove(name)
                expected.pop(name, None)
            case 4 if step % 3 == 0:
                state.clear()
                expected.clear()
            case 5:
                assert dict(state.items()) == expected, step
            case 6:
                backend.snapshot()
            case 7:
                backend.member.relieve()
            case 8 if step % 5 == 0:
                backend.compact()
            case _:
                assert state.get(name, "none") == expected.get(name, "none"), step
                assert state.contains(name) == (name in expected), step
    reopened = open_backend.reopen(DECLARED, backend.snapshot(), key="long")
    for key, expected in model.items():
        state = reopened.at(key).m
        assert {name: state.get(name) for name in expected} == expected
        assert not state.contains(ENTRIES)


@pytest.mark.parametrize("ddl", ["string", "long", "double", "date", "struct<a:int,b:string>"])
def test_an_entry_is_found_by_a_key_of_any_type(open_backend: Any, ddl: str) -> None:
    names: dict[str, list[Any]] = {
        "string": ["", "a", "é"],
        "long": [0, -1, 1 << 40],
        "double": [0.0, -2.5, float("inf")],
        "date": [date(2020, 1, 2), date(1960, 1, 1)],
        "struct<a:int,b:string>": [(1, "x"), (1, None), (2, "x")],
    }
    declared = {"m": MapState(ddl, "string")}
    backend = open_backend(declared)
    for number, name in enumerate(names[ddl]):
        backend.at("k").m.put(name, str(number))
    stored = backend.snapshot()
    backend.compact()
    opened: list[Callable[[], Any]] = [
        lambda: backend,
        lambda: open_backend.reopen(declared, stored),
    ]
    for found in opened:
        state = found().at("k").m
        for number, name in enumerate(names[ddl]):
            assert state.get(name) == str(number)
            assert state.contains(name)


def test_a_negative_zero_is_the_same_map_key(open_backend: Any) -> None:
    declared = {"m": MapState("double", "long")}
    backend = open_backend(declared)
    backend.at("k").m.put(0.0, 1)
    reopened = open_backend.reopen(declared, backend.snapshot())
    assert reopened.at("k").m.get(-0.0) == 1


def test_to_ask_for_an_entry_does_not_bring_the_map(open_backend: Any) -> None:
    """A large map stays where it is as long as nobody asks for all of it."""
    backend = open_backend(DECLARED, key="long")
    for name in range(1000):
        backend.at(1).m.put(name, -name)
    reopened = open_backend.reopen(DECLARED, backend.snapshot(), key="long")
    state = reopened.at(1).m
    assert [state.get(name) for name in (0, 500, 999, 1000)] == [0, -500, -999, None]
    state.put(500, 7)
    state.remove(999)
    assert state.get(500) == 7
    assert not state.contains(999)
    table = reopened.keyed.backend.tables["m"]
    if hasattr(table, "some"):
        assert not table.live.has(1)
        assert table.some == {1: {0: 0, 500: 7, 999: ABSENT, 1000: ABSENT}}
    assert sum(1 for _ in state.items()) == 999
