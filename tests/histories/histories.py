"""Random histories of keyed state: changes, epochs, merges, and restarts from any kept epoch.

A history is a list of steps that can be printed and played again::

    ("add", "a", "s0", 5), ("snapshot",), ("restart", 0, 3, "heap", {...})
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.errors import RestoreError
from mainstay.runtime.upgrading import StoredAs
from mainstay.snapshot.manifest import SegmentRef, StateSchema, SubtaskState
from mainstay.snapshot.since import Since
from mainstay.state.hashing import key_groups
from mainstay.state.upgrade import plan_state, schema_of
from mainstay.state.values import ValueType
from tests.contract.conftest import IMPLEMENTATIONS, MAX_PARALLELISM, BackendUnderTest, opening
from tests.histories.model import Model
from tests.histories.programs import (
    KEY_TYPES,
    Program,
    drawn_program,
    dropped_fields,
    next_program,
    unfit,
)
from tests.histories.types import drawn_value, shown

FILES = ("heap", "rocksdb", "rocksdb-small", "rocksdb-in-memory", "sqlite")
"""Backends that may follow each other, because all of their state is in files."""
SHARED = tuple(name for name in IMPLEMENTATIONS if name not in FILES)
"""Those whose state is in a database: a history stays with one of them, and goes on."""
BURST = 120
PASSED_S = (1, 9, 10, 50, 100)
Step = tuple[Any, ...]


@dataclass(frozen=True)
class History:
    """A history: how it begins, and all that happens."""

    key_type: str
    backend: str
    program: Program
    steps: Sequence[Step]

    def __str__(self) -> str:
        steps = "\n".join(f"    {step!r}," for step in self.steps)
        return (
            f"History({self.key_type!r}, {self.backend!r}, {dict(self.program)!r}, [\n{steps}\n])"
        )


def drawn_history(seed: int) -> History:
    random = Random(f"history-{seed}")
    backend = random.choice([*FILES, *FILES, *SHARED])
    key_type = random.choice(sorted(KEY_TYPES))
    first = program = drawn_program(random)
    steps: list[Step] = []
    kept: list[Program] = [program]
    for _ in range(random.choice([10, 25, 40])):
        step = _drawn_step(random, key_type, backend, program, kept)
        if step is None:
            continue
        if step[0] == "snapshot":
            changed = random.choices(KEY_TYPES[key_type], k=random.randint(1, 6))
            steps += [_drawn_change(random, key, program) for key in changed]
            kept.append(program)
        if step[0] == "forget":
            kept = kept[step[1] :]
        if step[0] == "restart":
            program = step[4]
            kept.append(program)
        steps.append(step)
    return History(key_type, backend, first, steps)


def _drawn_step(
    random: Random, key_type: str, backend: str, program: Program, kept: Sequence[Program]
) -> Step | None:
    match random.choices(
        [
            "change",
            "read",
            "pass",
            "snapshot",
            "freeze",
            "compact",
            "sweep",
            "restart",
            "refuse",
            "forget",
            "burst",
        ],
        [6, 2, 2, 10, 1, 2, 1, 2, 1, 1, 1],
    ):
        case ["change"]:
            return _drawn_change(random, random.choice(KEY_TYPES[key_type]), program)
        case ["read"]:
            return "read", random.choice(KEY_TYPES[key_type])
        case ["pass"]:
            return "pass", random.choice(PASSED_S)
        case ["restart"]:
            return _drawn_restart(random, backend, kept)
        case ["forget"]:
            return ("forget", 1) if len(kept) > 2 else None
        case ["compact"]:
            return "compact", random.random() < 0.5
        case ["burst"]:
            return "burst", random.choice(sorted(program)), random.randrange(1000)
        case ["refuse"]:
            name = random.choice(sorted(program))
            found = unfit(random, program[name])
            return None if found is None else ("refuse", name, found)
        case [other]:
            return (other,)
    return None


def _drawn_change(random: Random, key: Any, program: Program) -> Step:
    name = random.choice(sorted(program))
    state = program[name]
    if random.random() < 0.12:
        return "clear", key, name
    match state.kind:
        case "map":
            map_key = drawn_value(random, state.map_key, may_be_null=False)
            map_key = _without_null(map_key)
            if random.random() < 0.25:
                return "remove", key, name, map_key
            return "put", key, name, map_key, drawn_value(random, state.type, may_be_null=True)
        case "list" if random.random() < 0.15:
            count = random.randint(0, 2)
            return "replace", key, name, [drawn_value(random, state.type) for _ in range(count)]
        case "value":
            return "set", key, name, drawn_value(random, state.type, may_be_null=True)
        case "aggregating":
            return "add", key, name, random.randint(-5, 100)
    return "add", key, name, drawn_value(random, state.type)


def _without_null(key: Any) -> Any:
    return (
        tuple(0 if each is None else each for each in key[:1]) + key[1:]
        if isinstance(key, tuple)
        else key
    )


def _drawn_restart(random: Random, backend: str, kept: Sequence[Program]) -> Step:
    """From any epoch that is kept; a database has only the latest."""
    number = random.randrange(len(kept)) if backend in FILES else len(kept) - 1
    program = kept[number]
    if random.random() < 0.5:
        program = next_program(random, program)
    else:
        program = {name: replace(state, migrates=False) for name, state in program.items()}
    other = random.choice(FILES) if backend in FILES else backend
    return "restart", number, random.choice([1, 1, 2, 4]), other, program


# ---------------------------------------------------------------- playing


class Played:
    """The subtasks of an operator, beside a model of their state."""

    def __init__(self, history: History) -> None:
        self.key_type = history.key_type
        self.opening = opening(history.backend)
        self.model = Model(dict(history.program), self.opening.clock.now)
        self.backends = self.opening.all(self._states(history.program), 2, history.key_type)
        self.kept: list[tuple[list[SubtaskState], Since, Model]] = []
        self.snapshot()

    def release(self) -> None:
        for member in self.opening.opened:
            member.release()

    @staticmethod
    def _states(program: Program) -> dict[str, Any]:
        return {name: state.declaration() for name, state in program.items()}

    def do(self, step: Step) -> None:
        self.model.now = self.opening.clock.now
        getattr(self, "pass_" if step[0] == "pass" else step[0])(*step[1:])

    def at(self, key: Any, name: str) -> Any:
        array = ValueType.of(self.key_type).to_array([key])
        group = int(key_groups([array], MAX_PARALLELISM)[0])
        for backend in self.backends:
            if group in range(
                backend.keyed.owner.groups.first, backend.keyed.owner.groups.last + 1
            ):
                return getattr(backend.at(key), name)
        raise AssertionError(f"nobody has key-group {group}")

    # ------------------------------------------------------------ changes and reads

    def set(self, key: Any, name: str, value: Any) -> None:
        self.at(key, name).update(value)
        self.model.set(key, name, value)

    def add(self, key: Any, name: str, value: Any) -> None:
        self.at(key, name).add(value)
        self.model.add(key, name, value)

    def replace(self, key: Any, name: str, values: list[Any]) -> None:
        self.at(key, name).update(values)
        self.model.replace(key, name, values)

    def put(self, key: Any, name: str, map_key: Any, value: Any) -> None:
        self.at(key, name).put(map_key, value)
        self.model.put(key, name, map_key, value)

    def remove(self, key: Any, name: str, map_key: Any) -> None:
        self.at(key, name).remove(map_key)
        self.model.remove(key, name, map_key)

    def burst(self, name: str, seed: int) -> None:
        """Changes of many keys, so that segments differ in size and are merged in part."""
        random = Random(seed)
        for number in range(BURST):
            key = {"string": f"key {number}", "long": 1000 + number}.get(self.key_type)
            if key is not None:
                self.do(_drawn_change(random, key, {name: self.model.program[name]}))

    def clear(self, key: Any, name: str) -> None:
        self.at(key, name).clear()
        self.model.clear(key, name)

    def read(self, key: Any) -> None:
        for name, state in self.model.program.items():
            handle = self.at(key, name)
            found = dict(handle.items()) if state.kind == "map" else handle.get()
            expected = self.model.read(key, name)
            assert shown(found) == shown(expected), f"{name} of {key!r}: {found}, not {expected}"

    def pass_(self, seconds: int) -> None:
        self.opening.clock.now += seconds

    # ------------------------------------------------------------ epochs

    def snapshot(self) -> None:
        epoch = [backend.snapshot() for backend in self.backends]
        since = Since(self.backends[0].epoch, self.opening.attempt)
        self.kept.append((epoch, since, self.model.copy()))

    def freeze(self) -> None:
        """An epoch that is begun and given up: the next one has what it was to hold."""
        for backend in self.backends:
            backend.freeze()

    def compact(self, is_partial: bool) -> None:
        """Merge all segments into a base, or the newest ones into a segment."""
        for backend in self.backends:
            with _growing_to_the_oldest(backend) if is_partial else nullcontext():
                backend.compact()

    def sweep(self) -> None:
        if any(state.ttl is not None for state in self.model.program.values()):
            for backend in self.backends:
                backend.sweep()

    def forget(self, count: int) -> None:
        """Retention: the files of the oldest epochs, but for those that others need."""
        gone = {path for epoch, *_ in self.kept[:count] for path in _paths(epoch)}
        self.kept = self.kept[count:]
        needed = {path for epoch, *_ in self.kept for path in _paths(epoch)}
        for backend in self.backends:
            needed |= _paths_of(backend)
        for path in sorted(gone - needed):
            self.opening.storage.delete(path)

    def refuse(self, name: str, unfit: Any) -> None:
        """A program that must not go on with what is stored is told which state, and why."""
        (stored,) = _schemas({name: self.model.program[name]})
        info = replace(unfit.declaration().info(), name=name)
        with pytest.raises(RestoreError, match=repr(name)):
            plan_state(name, stored, info)

    def restart(self, number: int, parallelism: int, backend: str, program: Program) -> None:
        epoch, self.opening.since, model = self.kept[number]
        before = model.program
        upgrades = self._upgrades(before, program)
        self.opening.settings = IMPLEMENTATIONS[backend]
        stored = StoredAs(self.key_type, tuple(_schemas(before)))
        self.backends = self.opening.restore(
            self._states(program),
            epoch,
            parallelism,
            self.key_type,
            rewrite=upgrades,
            stored_as=stored if upgrades else None,
        )
        self.model = model.copy().followed_by(program, self.opening.clock.now)
        self.check()
        self.snapshot()

    def _upgrades(self, before: Program, program: Program) -> bool:
        """Whether anything has to be converted, as a coordinator decides it."""
        allowed = dropped_fields(before, program)
        stored = {schema.name: schema for schema in _schemas(before)}
        infos = [replace(s.declaration().info(), name=name) for name, s in program.items()]
        known = [info for info in infos if info.name in stored]
        plans = [plan_state(each.name, stored[each.name], each, allowed) for each in known]
        return any(plan.is_needed for plan in plans) or any(n not in program for n in before)

    def check(self) -> None:
        """All backends together hold what the model holds."""
        self.model.now = self.opening.clock.now
        for name in self.model.program:
            found: dict[str, str] = {}
            for backend in self.backends:
                found |= {shown(k): shown(v) for k, v in backend.contents(name).items()}
            expected = self.model.contents(name)
            assert found == expected, f"state {name!r} holds {found}, not {expected}"


def _schemas(program: Program) -> list[StateSchema]:
    infos = [replace(each.declaration().info(), name=name) for name, each in program.items()]
    return [schema_of(info) for info in infos]


def _paths(epoch: Sequence[SubtaskState]) -> set[str]:
    refs = [ref for subtask in epoch for ref in subtask.chain]
    return {file.path for ref in refs for file in (ref.file, *ref.parts)}


def _paths_of(backend: BackendUnderTest) -> set[str]:
    refs = [each.ref for each in backend.keyed.chain.segments if getattr(each, "ref", None)]
    return {file.path for ref in refs for file in (ref.file, *ref.parts)}


@contextmanager
def _growing_to_the_oldest(backend: BackendUnderTest) -> Iterator[None]:
    """Each segment is much larger than all after it: then only the newest are merged."""
    ids = [segment.id for segment in reversed(backend.keyed.chain.segments)]

    def size(ref: SegmentRef) -> int:
        return 4 ** (ids.index(ref.id) if ref.id in ids else 0)

    with patch.object(SegmentRef, "size_bytes", property(size)):
        yield


def play(history: History) -> None:
    """Play a history; what differs from the model is said with the step it was seen at."""
    played = Played(history)
    try:
        for number, step in enumerate(history.steps):
            try:
                played.do(step)
            except Exception as error:
                raise AssertionError(f"step {number}, {step!r}: {error}") from error
        played.check()
    finally:
        played.release()


def check_seed(seed: int) -> None:
    history = drawn_history(seed)
    try:
        play(history)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}\n{history}") from error
