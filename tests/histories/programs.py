"""Programs of a history: the states that they declare, as literals, and what a next one may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from random import Random
from typing import Any

import mainstay as ms
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    StateDeclaration,
    ValueState,
)
from tests.histories.types import (
    INTEGERS,
    MAP_KEYS,
    NARROWER,
    WIDER,
    Type,
    ddl,
    drawn_type,
    evolved,
    without_a_field,
)

KINDS = ("value", "list", "map", "reducing", "aggregating")
ACCUMULATOR: Type = ("struct", (("total", "long"), ("n", "long")))
KEY_TYPES: dict[str, tuple[Any, ...]] = {
    "string": (None, "", "a", "b", "\u00e9", "a\x00"),
    "long": (None, 0, -1, 1 << 40, 7),
    "double": (None, 0.0, 0.5, float("inf")),
    "date": (None, date(1, 1, 1), date(1917, 7, 15)),
    "struct<a:string,b:int>": (None, ("x", 1), ("x", None), (None, None), ("", -1)),
}


@dataclass(frozen=True)
class Declared:
    """One state of a program. ``ttl`` is in seconds, with what prolongs it."""

    kind: str
    type: Type
    map_key: Type = None
    ttl: tuple[int, str] | None = None
    migrates: bool = False
    """Whether it has a function for values that were texts."""

    def declaration(self) -> StateDeclaration:
        ttl = None if self.ttl is None else ms.Ttl(self.ttl[0], update=self.ttl[1])
        more: dict[str, Any] = {"ttl": ttl}
        if self.migrates:
            more["migrate"] = length_of
        match self.kind:
            case "map":
                return MapState(ddl(self.map_key), ddl(self.type), **more)
            case "list":
                return ListState(ddl(self.type), **more)
            case "reducing":
                return ReducingState(ddl(self.type), fold_of(self.type), **more)
            case "aggregating":
                return AggregatingState(Mean(), ddl(self.type), **more)
        return ValueState(ddl(self.type), **more)


Program = Mapping[str, Declared]


def length_of(text: str) -> int | None:
    """The migration of texts; those of odd length are dropped."""
    return None if len(text) % 2 else len(text)


def fold_of(type: Type) -> Callable[[Any, Any], Any]:
    return max if type in INTEGERS else _later


def _later(before: Any, value: Any) -> Any:
    return value


class Mean:
    """An aggregate whose accumulator is a new one each time."""

    def create(self) -> Any:
        return (0, 0)

    def add(self, accumulator: Any, value: int) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def result(self, accumulator: Any) -> Any:
        return accumulator[0], accumulator[1]


# ---------------------------------------------------------------- drawing


def drawn_state(random: Random) -> Declared:
    kind = random.choice(KINDS)
    type = ACCUMULATOR if kind == "aggregating" else drawn_type(random)
    map_key = random.choice(MAP_KEYS) if kind == "map" else None
    return Declared(kind, type, map_key, _drawn_ttl(random))


def _drawn_ttl(random: Random) -> tuple[int, str] | None:
    choices = [None, None, (10, "write"), (100, "write"), (10, "read")]
    return random.choice(choices)


def drawn_program(random: Random) -> dict[str, Declared]:
    return {f"s{number}": drawn_state(random) for number in range(random.randint(1, 4))}


def next_program(random: Random, program: Program) -> dict[str, Declared]:
    """A program that may go on with the states of this one."""
    found: dict[str, Declared] = {}
    for name, state in program.items():
        if len(program) > 1 and random.random() < 0.1:
            continue
        found[name] = next_state(random, state) if random.random() < 0.6 else settled(state)
    if not found or random.random() < 0.3:
        found[f"n{random.randrange(100)}"] = drawn_state(random)
    return found


def settled(state: Declared) -> Declared:
    return replace(state, migrates=False)


def next_state(random: Random, state: Declared) -> Declared:
    state = settled(state)
    match random.choice(["type", "type", "type", "ttl", "ttl", "kind", "field", "map_key"]):
        case "type" if state.kind != "aggregating":
            return replace(state, type=evolved(random, state.type))
        case "ttl":
            return replace(state, ttl=_drawn_ttl(random))
        case "kind" if state.kind in ("value", "reducing"):
            other = {"value": "reducing", "reducing": "value"}[state.kind]
            return replace(state, kind=other)
        case "field" if state.kind != "aggregating" and (less := without_a_field(state.type)):
            return replace(state, type=less[0])
        case "map_key" if state.kind == "map":
            return replace(state, map_key=WIDER.get(state.map_key, state.map_key))
    return state


def dropped_fields(before: Program, after: Program) -> list[str]:
    """What has to be allowed when one program follows another."""
    gone = [name for name in before if name not in after]
    for name, state in before.items():
        less = without_a_field(state.type)
        if name in after and less is not None and after[name].type == less[0]:
            gone.append(f"{name}.{less[1]}")
    return gone


def unfit(random: Random, state: Declared) -> Declared | None:
    """A declaration that must be refused for what is stored as this one."""
    state = settled(state)
    choices: list[Declared] = []
    if state.kind in ("value", "list"):
        other = {"value": "list", "list": "value"}[state.kind]
        choices.append(replace(state, kind=other))
    if state.type in NARROWER:
        choices.append(replace(state, type=NARROWER[state.type]))
    if state.type == "string":
        choices.append(replace(state, type="long"))
    if state.kind != "aggregating" and (less := without_a_field(state.type)):
        choices.append(replace(state, type=less[0]))
    if state.kind == "map":
        choices.append(replace(state, map_key="boolean"))
    return random.choice(choices) if choices else None
