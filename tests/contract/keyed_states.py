"""States that the suites of keyed backends declare, and what they do to them."""

from __future__ import annotations

import operator
from typing import Any

from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)


class Average:
    """An immutable accumulator: add returns a new one."""

    def create(self) -> Any:
        return (0.0, 0)

    def add(self, accumulator: Any, value: float) -> Any:
        return accumulator.total + value, accumulator.n + 1

    def result(self, accumulator: Any) -> float:
        return accumulator.total / accumulator.n


def average_state(ttl: Any = None) -> AggregatingState:
    return AggregatingState(Average(), "struct<total:double,n:long>", ttl=ttl)


def all_kinds() -> dict[str, Any]:
    return {
        "value": ValueState("long"),
        "items": ListState("string"),
        "by_page": MapState("string", "long"),
        "total": ReducingState("long", operator.add),
        "average": average_state(),
    }


def fill(states: Any, number: int) -> None:
    states.value.update(number)
    states.items.extend([f"a{number}", f"b{number}"])
    states.by_page.put("page", number)
    states.by_page.put("none", None)
    states.total.add(number)
    states.average.add(float(number))


def filled(number: int) -> dict[str, Any]:
    return {
        "value": number,
        "items": [f"a{number}", f"b{number}"],
        "by_page": {"page": number, "none": None},
        "total": number,
        "average": float(number),
    }


def contents(backend: Any, key: Any) -> dict[str, Any]:
    states = backend.at(key)
    return {
        "value": states.value.get(),
        "items": states.items.get(),
        "by_page": dict(states.by_page.items()),
        "total": states.total.get(),
        "average": states.average.get(),
    }


EMPTY = {"value": None, "items": [], "by_page": {}, "total": None, "average": None}
