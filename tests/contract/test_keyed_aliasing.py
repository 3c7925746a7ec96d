"""The contract of keyed state: objects that are given or got are nobody else's."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from mainstay.state.declaration import (
    ListState,
    MapState,
    ValueState,
)


@dataclass
class Profile:
    tags: list[str]


ALIASES = [
    ("array<long>", lambda: [1, 2], lambda x: x.append(3)),
    ("array<array<long>>", lambda: [[1], [2]], lambda x: x[0].append(3)),
    ("map<string,array<long>>", lambda: {"a": [1]}, lambda x: x["a"].append(2)),
    ("map<string,long>", lambda: {"a": 1}, lambda x: x.update(b=2)),
    ("struct<a:array<long>,b:int>", lambda: ([1], 2), lambda x: x[0].append(3)),
    ("struct<a:map<string,long>>", lambda: {"a": {"k": 1}}, lambda x: x["a"].update(k=2)),
    ("binary", lambda: bytearray(b"ab"), lambda x: isinstance(x, bytearray) and x.append(99)),
    (None, lambda: [1, [2]], lambda x: x[1].append(3)),
    (None, lambda: {"a": {1}}, lambda x: x["a"].add(2)),
    (None, lambda: Profile(["x"]), lambda x: x.tags.append("y")),
    (None, lambda: bytearray(b"ab"), lambda x: x.append(99)),
]


@pytest.mark.parametrize(("ddl", "make", "change"), ALIASES)
def test_changing_an_object_changes_neither_live_state_nor_a_snapshot(
    open_backend, ddl, make, change
):
    declared = {
        "value": ValueState(ddl),
        "items": ListState(ddl),
        "by_page": MapState("string", ddl),
    }
    backend = open_backend(declared)
    given = make()
    states = backend.at("a")
    states.value.update(given)
    states.items.add(given)
    states.by_page.put("x", given)

    def read() -> list[Any]:
        states = backend.at("a")
        return [
            states.value.get(),
            states.value.get_many(["a"])[0],
            *states.items.get(),
            states.by_page.get("x"),
            *states.by_page.values(),
            dict(states.by_page.items())["x"],
        ]

    # A deep copy: what was read might be the kept object itself, and change with it.
    before = copy.deepcopy(read())
    change(given)
    for returned in read():
        change(returned)
    assert read() == before
    cut = backend.freeze()
    for returned in read():
        change(returned)
    restored = open_backend.reopen(declared, backend.write(cut))
    backend = restored
    assert read() == before
    for returned in read():
        change(returned)
    assert read() == before


def test_changing_a_returned_list_changes_nothing(open_backend):
    backend = open_backend({"items": ListState("long")})
    state = backend.at("a").items
    given = [1, 2]
    state.update(given)
    given.append(3)
    state.get().append(4)
    assert state.get() == [1, 2]
    assert open_backend.reopen({"items": ListState("long")}, backend.snapshot()).contents(
        "items"
    ) == {"a": [1, 2]}
