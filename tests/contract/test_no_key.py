"""Keyed state says so where there is no key, whatever is called on whichever state."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from mainstay.errors import MainstayError
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from mainstay.state.keyed import NO_KEY
from tests.contract.conftest import OpenBackend


class Total:
    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: int) -> int:
        return accumulator + value

    def result(self, accumulator: int) -> int:
        return accumulator


def declared(ttl: str | None) -> dict[str, Any]:
    return {
        "value": ValueState("long", ttl=ttl),
        "text": ValueState("struct<a:string>", ttl=ttl),
        "pickled": ValueState(ttl=ttl),
        "items": ListState("long", ttl=ttl),
        "entries": MapState("string", "long", ttl=ttl),
        "total": ReducingState("long", operator.add, ttl=ttl),
        "sums": AggregatingState(Total(), "long", ttl=ttl),
    }


USES: dict[str, Callable[[Any], Any]] = {
    "value.get": lambda s: s.value.get(),
    "value.update": lambda s: s.value.update(1),
    "value.update(None)": lambda s: s.value.update(None),
    "value.clear": lambda s: s.value.clear(),
    "text.get": lambda s: s.text.get(),
    "text.update": lambda s: s.text.update(("a",)),
    "text.clear": lambda s: s.text.clear(),
    "pickled.get": lambda s: s.pickled.get(),
    "pickled.update": lambda s: s.pickled.update({}),
    "items.get": lambda s: s.items.get(),
    "items.add": lambda s: s.items.add(1),
    "items.extend": lambda s: s.items.extend([1]),
    "items.update": lambda s: s.items.update([1]),
    "items.update(None)": lambda s: s.items.update(None),
    "items.clear": lambda s: s.items.clear(),
    "entries.get": lambda s: s.entries.get("a"),
    "entries.put": lambda s: s.entries.put("a", 1),
    "entries.remove": lambda s: s.entries.remove("a"),
    "entries.contains": lambda s: s.entries.contains("a"),
    "entries.items": lambda s: list(s.entries.items()),
    "entries.keys": lambda s: list(s.entries.keys()),
    "entries.values": lambda s: list(s.entries.values()),
    "entries.clear": lambda s: s.entries.clear(),
    "total.add": lambda s: s.total.add(1),
    "total.get": lambda s: s.total.get(),
    "total.clear": lambda s: s.total.clear(),
    "sums.add": lambda s: s.sums.add(1),
    "sums.get": lambda s: s.sums.get(),
    "sums.clear": lambda s: s.sums.clear(),
}


@pytest.mark.parametrize("key", ["string", "struct<a:string,b:long>"])
@pytest.mark.parametrize("ttl", [None, "1h"])
@pytest.mark.parametrize("is_filled", [False, True])
def test_whatever_is_done_without_a_key_says_so(
    open_backend: OpenBackend, is_filled: bool, ttl: str | None, key: str
) -> None:
    backend = open_backend(declared(ttl), key=key)
    if is_filled:
        states = backend.at("a" if key == "string" else ("a", 1))
        for name in ("value.update", "text.update", "pickled.update", "items.add"):
            USES[name](states)
        for name in ("entries.put", "total.add", "sums.add"):
            USES[name](states)
    states = backend.at(NO_KEY)
    for name, use in USES.items():
        with pytest.raises(MainstayError, match="there is no key"):
            pytest.fail(f"{name} without a key gave {use(states)!r}")
    assert len(backend.snapshot().chain) == is_filled
