"""Processors that are drawn at random: a program of operations on states and timers.

What an operation gives goes into a number, which decides what the next one writes and which branch
is taken. So a value that is not what it should be shows in all that comes after it. Programs are
plain data, and run wherever a ``StatefulProcessor`` does: on Mainstay, in Spark, in Spark's tester.

A timer for the end of all (``LAST_MS``) tells everything that a key has in its states.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tests.processors.processors import Base
from tests.processors.slices import START_MS

LAST_MS = START_MS + 1_000_000_000
LONG_TTL_MS = 10**12
OUTPUT = "p long, k string, n long, what string"

VALUE, LIST, MAP = "value", "list", "map"
OPERATIONS = {
    VALUE: ("get", "get", "update", "update", "add", "add", "exists", "clear"),
    LIST: ("get", "get", "put", "append", "append", "extend", "exists", "during", "clear"),
    MAP: (
        *("get", "get", "has", "put", "put", "put", "remove", "items", "keys", "values"),
        *("exists", "clear"),
    ),
}
WRITES = {VALUE: "update", LIST: "append", MAP: "put"}
SCHEMAS = {
    "whole": "n long",
    "nulls": "n long, s string",
    "double": "d double",
    "decimal": "x decimal(10,2)",
    "day": "d date",
    "bytes": "b boolean, raw binary",
    "array": "a array<long>",
    "struct": "s struct<x:long,y:string>",
    "map": "m map<string,long>",
}
MAP_KEYS = {"text": "k string", "pair": "a long, b string"}


@dataclass(frozen=True, slots=True)
class State:
    """A state that a program declares."""

    name: str
    kind: str
    value: str
    map_key: str = "text"
    has_ttl: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """An operation. ``inner`` are those of a branch or of a loop."""

    name: str
    state: State | None = None
    inner: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """What is done for each row, and for each timer."""

    states: tuple[State, ...]
    for_rows: tuple[Op, ...]
    for_timers: tuple[Op, ...]


def operations(ops: tuple[Op, ...]) -> set[tuple[str, str]]:
    """The operations on states, by the kinds of their states."""
    own = {(op.state.kind, op.name) for op in ops if op.state is not None}
    return own.union(*(operations(op.inner) for op in ops))


# ------------------------------------------------------------ drawn


def drawn(chance: Random, *, left_out: frozenset[tuple[str, str]] = frozenset()) -> Program:
    """A program without some operations, which are named by the kind of their state, too. What a
    timer does sets no timers: when those fire differs between engines."""
    states = tuple(_state(chance, number) for number in range(chance.randint(1, 4)))
    draw = _Draw(chance, states, left_out)
    # Something is written into each, so that the others find something.
    for_rows = [Op(WRITES[state.kind], state) for state in states]
    for_rows += draw.ops(chance.randint(2, 8), has_timers=True)
    chance.shuffle(for_rows)
    return Program(states, tuple(for_rows), draw.ops(chance.randint(1, 4), has_timers=False))


def _state(chance: Random, number: int) -> State:
    kind = chance.choice((VALUE, LIST, MAP))
    value, map_key = chance.choice(tuple(SCHEMAS)), chance.choice(tuple(MAP_KEYS))
    return State(f"{kind}{number}", kind, value, map_key, chance.random() < 0.2)


@dataclass(frozen=True, slots=True)
class _Draw:
    chance: Random
    states: tuple[State, ...]
    left_out: frozenset[tuple[str, str]]

    def ops(self, count: int, *, has_timers: bool, depth: int = 0) -> tuple[Op, ...]:
        return tuple(self._op(has_timers=has_timers, depth=depth) for _ in range(count))

    def _op(self, *, has_timers: bool, depth: int) -> Op:
        chance, what = self.chance, self.chance.random()
        if what < 0.15 and depth < 2:
            inner = self.ops(chance.randint(1, 3), has_timers=has_timers, depth=depth + 1)
            return Op(chance.choice(("if", "repeat")), inner=inner)
        if what < 0.25:
            return Op("emit")
        if what < 0.45 and has_timers:
            return Op(chance.choice(("set", "set", "unset", "times")))
        state = chance.choice(self.states)
        names = [name for name in OPERATIONS[state.kind] if (state.kind, name) not in self.left_out]
        return Op(chance.choice(names), state)


# ------------------------------------------------------------ values


def mixed(number: int, value: Any) -> int:
    """A number that says something of both, the same everywhere."""
    return zlib.crc32(f"{number} {plain(value)!r}".encode())


def plain(value: Any) -> Any:
    """A value of a state without what engines do differently: rows are tuples, maps in order."""
    if isinstance(value, dict):
        return tuple(sorted((plain(name), plain(each)) for name, each in value.items()))
    if isinstance(value, tuple | list):
        return tuple(plain(each) for each in value)
    return bytes(value) if isinstance(value, bytearray) else value


def made(schema: str, number: int) -> tuple[Any, ...]:
    """A value of a schema."""
    match schema:
        case "whole":
            return (number % 1000 - 500,)
        case "nulls":
            return (number % 7 if number % 3 else None, f"s{number % 5}" if number % 4 else None)
        case "double":
            return (number % 97 / 8,)
        case "decimal":
            return (Decimal(number % 100_000).scaleb(-2),)
        case "day":
            return (date(2020, 1, 1) + timedelta(days=number % 400),)
        case "bytes":
            return (number % 2 == 0, bytes([number % 256, 7]))
        case "array":
            return ([number % 5, None, number % 3][: 1 + number % 3],)
        case "struct":
            return ((number % 9, f"y{number % 4}"),)
        case _:
            return ({"k0": number % 10, f"k{number % 3}": 1},)


def map_key(schema: str, number: int) -> tuple[Any, ...]:
    if schema == "text":
        return (f"k{number % 4}",)
    return (number % 2, f"b{number % 3}" if number % 5 else None)


# ------------------------------------------------------------ run


class Programs(Base):
    """Runs the program that the first column of a key of two numbers; else the first."""

    output = OUTPUT

    def __init__(self, programs: tuple[Program, ...], time_mode: str) -> None:
        self.programs = programs
        self.time_mode = time_mode

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.states = [
            {state.name: self._declared(handle, number, state) for state in program.states}
            for number, program in enumerate(self.programs)
        ]

    def _declared(self, handle: Any, number: int, state: State) -> Any:
        ttl = LONG_TTL_MS if state.has_ttl and self.time_mode == "ProcessingTime" else None
        name, schema = f"p{number}_{state.name}", SCHEMAS[state.value]
        if state.kind == VALUE:
            return handle.getValueState(name, schema, ttl)
        if state.kind == LIST:
            return handle.getListState(name, schema, ttl)
        return handle.getMapState(name, MAP_KEYS[state.map_key], schema, ttl)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        for n in sorted(self.values(rows, "n")):
            base_ms = START_MS + n * 1000 if self.time_mode == "EventTime" else now_ms
            if self.time_mode != "None":
                self.handle.registerTimer(LAST_MS)
            run = Run(self, key, n, base_ms)
            run.do(self.programs[run.number].for_rows)
            yield run.told(n)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        run = Run(self, key, at_ms, at_ms)
        if at_ms == LAST_MS:
            run.texts.append(f"all {run.everything()}")
        else:
            run.do(self.programs[run.number].for_timers)
        yield run.told(at_ms - START_MS)


class Run:
    """A program for one row or one timer."""

    def __init__(self, of: Programs, key: Any, seed: int, base_ms: int) -> None:
        self.number = key[0] if len(key) == 2 else 0
        self.key = key[-1]
        self.texts: list[str] = []
        self._of = of
        self._states = of.states[self.number]
        self._acc = mixed(seed - START_MS if seed >= START_MS else seed, self.key)
        self._base_ms = base_ms

    def told(self, n: int) -> Any:
        """What is emitted for it."""
        return self._of.out(p=self.number, k=self.key, n=n, what=" | ".join(self.texts))

    def do(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            self._acc = mixed(self._acc, self._one(op))
        if ops:
            self.texts.append(f"{ops[-1].name} {self._acc}")

    def _one(self, op: Op) -> Any:
        if op.state is not None:
            found = self._states[op.state.name]
            return {VALUE: self._value, LIST: self._list, MAP: self._map}[op.state.kind](
                op, op.state, found
            )
        match op.name:
            case "if":
                return self.do(op.inner) if self._acc % 2 else "not"
            case "repeat":
                for _ in range(1 + self._acc % 3):
                    self.do(op.inner)
            case "emit":
                self.texts.append(str(self._acc))
            case _:
                return self._timer(op)
        return None

    def _value(self, op: Op, state: State, found: Any) -> Any:
        match op.name:
            case "get":
                return found.get()
            case "update":
                return found.update(made(state.value, self._acc))
            case "add":
                return found.update(made(state.value, mixed(self._acc, found.get())))
            case "exists":
                return found.exists()
            case _:
                return found.clear()

    def _list(self, op: Op, state: State, found: Any) -> Any:
        some = [made(state.value, self._acc + n) for n in range(1 + self._acc % 4)]
        match op.name:
            case "get":
                return list(found.get())
            case "put":
                return found.put(some)
            case "append":
                return found.appendValue(some[0])
            case "extend":
                return found.appendList(some)
            case "exists":
                return found.exists()
            case "during":
                # Spark reads when an iterator is first asked, so it is.
                begun = found.get()
                first = next(begun, None)
                found.appendValue(some[0])
                return first, list(begun), list(found.get())
            case _:
                return found.clear()

    def _map(self, op: Op, state: State, found: Any) -> Any:
        name = map_key(state.map_key, self._acc)
        match op.name:
            case "get":
                return found.getValue(name)
            case "has":
                return found.containsKey(name)
            case "put":
                return found.updateValue(name, made(state.value, self._acc))
            case "remove":
                names = sorted(map(tuple, found.keys()), key=repr) or [name]
                return found.removeKey(names[self._acc % len(names)])
            case "exists":
                return found.exists()
            case "clear":
                return found.clear()
            case _:
                each = {"items": found.iterator, "keys": found.keys, "values": found.values}
                return sorted(repr(plain(one)) for one in each[op.name]())

    def _timer(self, op: Op) -> Any:
        at_ms = self._base_ms + 1 + self._acc % 40
        if op.name == "set":
            self._of.handle.registerTimer(at_ms)
        elif op.name == "unset":
            self._of.handle.deleteTimer(at_ms)
        return sorted(at - START_MS for at in self._of.handle.listTimers())

    def everything(self) -> dict[str, Any]:
        """All that the key has in its states, by their names."""
        kept = {}
        for state in self._of.programs[self.number].states:
            found = self._states[state.name]
            if state.kind == VALUE:
                kept[state.name] = plain(found.get())
            elif state.kind == LIST:
                kept[state.name] = plain(list(found.get()))
            else:
                kept[state.name] = sorted(repr(plain(each)) for each in found.iterator())
        return kept
