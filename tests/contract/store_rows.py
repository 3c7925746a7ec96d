"""What the segments of a job do to its state, drawn at random, and a plain model of what comes out.

The model knows keys and values, and nothing of rows, numbers and versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from mainstay.connectors.postgres.states.tables import schema_of
from mainstay.state.backends.external.store import GROUP, PART, StateChanges, Stored
from mainstay.state.keygroups import KeyGroupRange
from tests.contract.store_pairs import STATES

KEYS = ("a", "b")
MAP_KEYS = ("", "x", "y'\\")
TEXTS = ("", "plain", 'q"u,o', "back\\slash\n", "nul\0", "{NULL}", "NULL", "\\.", "ü")
SCHEMAS = {state.name: schema_of(state) for state in STATES}

Contents = dict[str, dict[str, Any]]
"""By state and key: a text, a dictionary, or a list."""


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that a segment does to a key."""

    state: str
    group: int
    key: str
    verb: str
    entry: str = ""
    value: Any = None


@dataclass(slots=True, eq=False)
class Segment:
    """A segment: tables of operations, the epoch it was cut with, and its key-groups."""

    id: str
    epoch: int
    groups: KeyGroupRange
    pieces: list[list[Op]]
    based: set[int] = field(default_factory=set)
    """The key-groups for which a base stands for it."""

    def changes(self, number: int, groups: Iterable[int]) -> list[StateChanges]:
        mine = set(groups)
        parts = [[op for op in piece if op.group in mine] for piece in self.pieces]
        return [_changes(piece, number, at) for at, piece in enumerate(parts) if piece]


def k_of(group: int, key: str) -> bytes:
    return GROUP.pack(group) + b"\1" + key.encode()


def drawn(random: Random, groups: KeyGroupRange) -> list[list[Op]]:
    """Tables of a segment; a state may have several."""
    return [
        _piece(random, random.choice(STATES).name, groups) for _ in range(random.choice((1, 2, 3)))
    ]


def _piece(random: Random, state: str, groups: KeyGroupRange) -> list[Op]:
    places = [(group, key) for group in groups for key in KEYS]
    chosen = random.sample(places, random.randint(1, min(len(places), 4)))
    return [op for group, key in chosen for op in _ops(random, state, group, key)]


def _ops(random: Random, state: str, group: int, key: str) -> list[Op]:
    """What is done to a key, as it comes out: each row once, and a clear first."""
    if state == "note":
        verb = random.choice(("put", "put", "remove"))
        return [Op(state, group, key, verb, value=random.choice(TEXTS))]
    cleared = [Op(state, group, key, "clear")] if random.random() < 0.3 else []
    if state == "amounts":
        more = [random.randrange(100) for _ in range(random.randint(1, 3))]
        appended = [Op(state, group, key, "append", value=more)]
        return cleared + (appended if not cleared or random.random() < 0.5 else [])
    entries = random.sample(MAP_KEYS, random.randint(0 if cleared else 1, len(MAP_KEYS)))
    values = (None, *range(50))
    return cleared + [
        Op(state, group, key, random.choice(("put", "put", "remove")), e, random.choice(values))
        for e in entries
    ]


def _changes(piece: Sequence[Op], number: int, at: int) -> StateChanges:
    state = piece[0].state
    part = PART.pack(number, at) if state == "amounts" else b""
    put = sorted(
        (op for op in piece if op.verb in ("put", "append")),
        key=lambda op: (k_of(op.group, op.key), op.entry.encode()),
    )
    rows: list[Stored] = [
        (k_of(op.group, op.key), part or op.entry.encode(), json.dumps(op.value).encode())
        for op in put
    ]
    return StateChanges(
        state,
        sorted(k_of(op.group, op.key) for op in piece if op.verb == "clear"),
        sorted((k_of(op.group, op.key), op.entry.encode()) for op in piece if op.verb == "remove"),
        rows,
        _readable(state, put),
    )


def _readable(state: str, put: Sequence[Op]) -> pa.Table:
    schema = SCHEMAS[state]
    columns = {
        "key": [name_of(op.group, op.key) for op in put],
        "map_key": [op.entry for op in put],
        "value": [op.value for op in put],
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def name_of(group: int, key: str) -> str:
    """A key as people read it."""
    return f"{group}{key}"


# ---------------------------------------------------------------- the model


def after(contents: Contents, segments: Iterable[Segment]) -> Contents:
    """What state there is after segments."""
    found = deepcopy(contents)
    for segment in segments:
        for piece in segment.pieces:
            for op in piece:
                _DO[op.verb](found.setdefault(op.state, {}), name_of(op.group, op.key), op)
    return found


def _put(keys: dict[str, Any], key: str, op: Op) -> None:
    if op.state == "note":
        keys[key] = op.value
    else:
        keys.setdefault(key, {})[op.entry] = op.value


def _remove(keys: dict[str, Any], key: str, op: Op) -> None:
    if op.state == "note":
        keys.pop(key, None)
    elif key in keys:
        keys[key].pop(op.entry, None)
        if not keys[key]:
            del keys[key]


_DO: dict[str, Callable[[dict[str, Any], str, Op], Any]] = {
    "put": _put,
    "remove": _remove,
    "clear": lambda keys, key, op: keys.pop(key, None),
    "append": lambda keys, key, op: keys.setdefault(key, []).extend(op.value),
}


def seen(state: str, contents: Contents) -> list[tuple[Any, ...]]:
    """A state as its columns for people show it, in order."""
    keys = contents.get(state, {})
    if state == "counts":
        rows: list[tuple[Any, ...]] = [
            (k, s, v) for k, some in keys.items() for s, v in some.items()
        ]
    elif state == "note":
        rows = [(k, v.replace("\0", "\ufffd")) for k, v in keys.items()]
    else:
        rows = list(keys.items())
    return sorted(rows, key=repr)


def held(state: str, rows: Iterable[Stored]) -> dict[str, Any]:
    """What rows of a store come to, by key."""
    found: dict[str, Any] = {}
    for k, s, cell in rows:
        key, value = name_of(GROUP.unpack_from(k)[0], k[3:].decode()), json.loads(cell)
        if state == "note":
            found[key] = value
        elif state == "counts":
            found.setdefault(key, {})[s.decode()] = value
        else:
            found.setdefault(key, []).extend(value)
    return found


def as_loaded(contents: Contents, groups: KeyGroupRange) -> list[StateChanges]:
    """State as it is loaded into tables that are made for it."""
    found = []
    for state, keys in contents.items():
        ops = []
        for key, value in keys.items():
            group, name = int(key[:-1]), key[-1]
            if group in groups:
                verb = "append" if state == "amounts" else "put"
                entries = value.items() if state == "counts" else [("", value)]
                ops += [Op(state, group, name, verb, e, v) for e, v in entries]
        if ops:
            found.append(_changes(ops, 0, 0))
    return found
