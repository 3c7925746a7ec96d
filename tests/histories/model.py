"""Keyed state in plain dictionaries: what every backend must hold."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.histories.programs import Declared, Program, fold_of, length_of
from tests.histories.types import converted, shown

Stamped = tuple[Any, float]


@dataclass
class Model:
    """By state and key: a value with the time of its last touch, a list of such, or a map."""

    program: Program
    now: float
    held: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.program:
            self.held.setdefault(name, {})

    def copy(self) -> Model:
        return Model(dict(self.program), self.now, copy.deepcopy(self.held))

    # ------------------------------------------------------------ changes

    def set(self, key: Any, name: str, value: Any) -> None:
        if value is None:
            self.clear(key, name)
        else:
            self.held[name][key] = (value, self.now)

    def add(self, key: Any, name: str, value: Any) -> None:
        state = self.program[name]
        if state.kind == "list":
            self.held[name].setdefault(key, []).append((value, self.now))
            return
        before = self._live(state, self.held[name].get(key))
        if state.kind == "aggregating":
            total, count = (0, 0) if before is None else before[0]
            folded: Any = (total + value, count + 1)
        else:
            folded = value if before is None else fold_of(state.type)(before[0], value)
        self.held[name][key] = (folded, self.now)

    def replace(self, key: Any, name: str, values: list[Any]) -> None:
        self.held[name][key] = [(value, self.now) for value in values]

    def put(self, key: Any, name: str, map_key: Any, value: Any) -> None:
        self.held[name].setdefault(key, {})[map_key] = (value, self.now)

    def remove(self, key: Any, name: str, map_key: Any) -> None:
        self.held[name].get(key, {}).pop(map_key, None)

    def clear(self, key: Any, name: str) -> None:
        self.held[name].pop(key, None)

    # ------------------------------------------------------------ reads

    def _live(self, state: Declared, stamped: Stamped | None) -> Stamped | None:
        """What has not expired."""
        if stamped is None or state.ttl is None:
            return stamped
        return stamped if self.now - stamped[1] < state.ttl[0] else None

    def read(self, key: Any, name: str) -> Any:
        """What a read gives, which may prolong what it reads."""
        state = self.program[name]
        if name not in self.held or key not in self.held[name]:
            return {"list": [], "map": {}}.get(state.kind)
        self._forget_expired(key, name)
        self._touch(key, name)
        found = self.held[name].get(key)
        if state.kind == "list":
            return [value for value, _ in found or ()]
        if state.kind == "map":
            return {map_key: value for map_key, (value, _) in (found or {}).items()}
        return None if found is None else found[0]

    def _forget_expired(self, key: Any, name: str) -> None:
        state, found = self.program[name], self.held[name][key]
        if state.kind == "list":
            self.held[name][key] = [each for each in found if self._live(state, each)]
        elif state.kind == "map":
            self.held[name][key] = {k: each for k, each in found.items() if self._live(state, each)}
        elif self._live(state, found) is None:
            del self.held[name][key]

    def _touch(self, key: Any, name: str) -> None:
        ttl, found = self.program[name].ttl, self.held[name].get(key)
        if ttl is None or ttl[1] != "read" or not found:
            return
        kind = self.program[name].kind
        if kind == "list":
            self.held[name][key] = [(value, self.now) for value, _ in found]
        elif kind == "map":
            self.held[name][key] = {k: (value, self.now) for k, (value, _) in found.items()}
        else:
            self.held[name][key] = (found[0], self.now)

    def contents(self, name: str) -> dict[str, str]:
        """All that a state holds, as texts; what is empty is not there."""
        found = {}
        for key in list(self.held[name]):
            value = self.read(key, name)
            if value is not None and (value or self.program[name].kind not in ("list", "map")):
                found[shown(key)] = shown(value)
        return found

    # ------------------------------------------------------------ another program

    def followed_by(self, program: Program, now: float) -> Model:
        """The same state under the next program, restored at a time."""
        after = Model(dict(program), now)
        self.now = now
        for name, new in program.items():
            old = self.program.get(name)
            if old is None:
                continue
            for key in list(self.held[name]):
                self._forget_expired(key, name)
            for key, found in self.held[name].items():
                _store(after.held[name], key, found, old, new, now)
        return after


def _store(
    held: dict[Any, Any], key: Any, found: Any, old: Declared, new: Declared, now: float
) -> None:
    if old.kind == "list":
        held[key] = [each for pair in found for each in _converted(pair, old, new, now)]
    elif old.kind == "map":
        held[key] = {
            converted(map_key, old.map_key, new.map_key): each
            for map_key, pair in found.items()
            for each in _converted(pair, old, new, now)
        }
    else:
        for each in _converted(found, old, new, now):
            held[key] = each


def _converted(stamped: Stamped, old: Declared, new: Declared, now: float) -> Iterator[Stamped]:
    """A value in its new type; nothing where the migration drops it."""
    value, at = stamped
    at = at if old.ttl is not None else now
    if new.migrates and old.type != new.type:
        value = None if value is None else length_of(value)
        if value is None and stamped[0] is not None:
            return
        yield value, at
        return
    yield converted(value, old.type, new.type), at
