"""A drawn function in whole jobs that move, beside the same function over its rows one by one.

At each place the job is compiled or is not, and its state is in memory or in a database; it
crashes, is rescaled, stops, and goes on from its snapshots or a savepoint. A job is forked from a
savepoint that was taken on the way. Rows of a key come from one source, so that they have an order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import mainstay as ms
from mainstay.errors import UserFunctionError
from mainstay.plan.compiling.refusal import NotCompiledError
from mainstay.runtime.options import JobOptions
from mainstay.schema import rows_to_batch, to_schema
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.testing.inspect import latest_manifest, operator_of, restored_backends
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.simulation import Simulation
from tests.compiled.driving import Driven, bits, plain, summary
from tests.compiled.modules import module_of
from tests.compiled.written import Drawn, drawn
from tests.graphs.moving import Moving, stages_of
from tests.graphs.playing import sizes_of
from tests.simulation.ends import CoarseRows
from tests.simulation.scenarios import Scenario

BATCHES = 12
KEYS = 9
FAILURES = 6
"""How often a job whose function fails is started again, at most."""
States = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Course:
    """A function, its rows by source, and where it is compiled."""

    given: Drawn
    function: type[Any]
    sources: tuple[list[tuple[Any, ...]], ...]
    compiled: tuple[bool, ...]

    @staticmethod
    def of(seed: int, folder: Path) -> Course:
        random, given = Random(f"functions-{seed}"), drawn(seed, batches=BATCHES, keys=KEYS)
        count = random.randint(1, 3)
        rows = [row for batch in given.batches for row in batch]
        sources = tuple([row for row in rows if row[0] % count == n] for n in range(count))
        # Some jobs are compiled all the way.
        compiled = tuple(random.random() < 0.7 for _ in range(random.choice([1, 2, 3, 4])))
        function = module_of(given.source, folder).F
        return Course(given, function, sources, compiled if any(compiled) else (True,))

    @property
    def is_refused(self) -> bool:
        given = self.given
        try:
            Driven(self.function(), given.taken, given.key, given.given)
        except NotCompiledError:
            return True
        return False


@dataclass(frozen=True, slots=True)
class Reference:
    """What the function gives, keeps and fails with as ordinary Python, row after row."""

    rows: Counter[Any]
    states: States
    errors: frozenset[tuple[str, str]]
    """Where a job takes rows together it may meet a later one of a key first."""

    @staticmethod
    def of(course: Course) -> Reference:
        given, schema = course.given, to_schema(course.given.taken)
        driven = Driven(plain(course.function)(), given.taken, given.key, given.given)
        errors = set()
        for row in (row for rows in course.sources for row in rows):
            outcome = driven.after([rows_to_batch([row], schema, "a reference")])
            if outcome.error is not None:
                name, told = outcome.error
                errors.add((name, _anywhere(told)))
        outcome = driven.after([])
        states = {
            name: {_key(key): kept for key, kept in entries} for name, entries in outcome.states
        }
        return Reference(Counter(outcome.rows), states, frozenset(errors))


class MovingFunction(Moving):
    """A job with a drawn function."""

    def __init__(self, course: Course, reference: Reference, stages: Sequence[Scenario]) -> None:
        super().__init__((), stages)
        self._course, self._reference = course, reference

    def beside(self, stages: Sequence[Scenario]) -> MovingFunction:
        return MovingFunction(self._course, self._reference, stages)

    def write(self, env: ms.Environment) -> None:
        course, given = self._course, self._course.given
        is_compiled = course.compiled[(self.stages - 1) % len(course.compiled)]
        function = course.function if is_compiled else plain(course.function)
        sources = [
            env.source(CoarseRows(given.taken, rows), uid=f"in{number}")
            for number, rows in enumerate(course.sources)
        ]
        all_rows = sources[0].union(*sources[1:]) if len(sources) > 1 else sources[0]
        made = all_rows.key_by(*given.key).process(function(), schema=given.given, uid="f")
        made.sink(ms.connectors.Memory(), uid="out")

    def check_end(self, simulation: Simulation) -> None:
        """The function fails where it does as ordinary Python, and as it does there."""
        own = [each for each in simulation.failures if isinstance(each, UserFunctionError)]
        found = {(type(each).__name__, _anywhere(summary(str(each)))) for each in own}
        assert found <= self._reference.errors, f"{found - self._reference.errors}\n{self.story()}"
        if not self._reference.errors:
            return super().check_end(simulation)
        if simulation.coordinator.error is not None:
            raise FailedError from simulation.coordinator.error

    def _options(self) -> JobOptions:
        options = super()._options()
        if not self._reference.errors:
            return options
        return replace(options, restart=replace(options.restart, max_failures=FAILURES))

    def check(self) -> None:
        """Every row and every value is that of the reference."""
        found, expected = self.rows(), self._reference.rows
        assert found == expected, (
            f"lacks {dict(expected - found)}, has too much {dict(found - expected)}\n{self.story()}"
        )
        self.check_states()

    def check_states(self) -> None:
        found, expected = self.kept(), self._reference.states
        assert found == expected, f"(found, expected): {found}, {expected}\n{self.story()}"

    def rows(self) -> Counter[Any]:
        return Counter(tuple(map(bits, row)) for row in self.output("out"))

    def kept(self) -> States:
        """What is kept at the last epoch, as the backend has it."""
        self.calm(self.scenario)
        spec, manifest = operator_of(self.job, "f"), latest_manifest(self.storage)
        found: States = {info.name: {} for info in spec.states}
        if manifest is None or "f" not in manifest.operators:
            return found
        stored = manifest.operators["f"]
        for _, backend in restored_backends(
            self.storage, self.job, spec, stored, manifest.created_at
        ):
            for name, entries in found.items():
                entries.update((_key(bits(key)), bits(kept)) for key, kept in backend.entries(name))
        return found


def _key(told: str) -> str:
    """A key as a database has it: a zero of either sign is one."""
    return told.replace(bits(-0.0), bits(0.0))


def _anywhere(told: str) -> str:
    """An error without the subtask that met it."""
    return re.sub(r"subtask \d+", "a subtask", told)


class FailedError(Exception):
    """A job has ended as its function has it end."""


def check_moving(seed: int, folder: Path) -> str:
    """How the job of a seed went: it gave rows, failed, or was refused. Names what differs."""
    course = Course.of(seed, folder)
    if course.is_refused:
        return "refused"
    reference = Reference.of(course)
    try:
        return _moved(course, reference, seed)
    except Exception as error:
        given = course.given
        told = f"{given.taken} -> {given.given}\n{course.sources}\n{given.source}"
        raise AssertionError(f"seed {seed}: {error}\n{told}") from error


def _moved(course: Course, reference: Reference, seed: int) -> str:
    stages = _never_back(stages_of(seed))
    if reference.errors:
        stages = [_faultless(stage) for stage in stages]
    moving = MovingFunction(course, reference, stages)
    with sizes_of(moving.scenario):
        is_failed = _fails(moving)
        assert is_failed == bool(reference.errors), f"failed: {is_failed}\n{moving.story()}"
        if not is_failed:
            moving.check()
        fork = moving.forked()
        if fork is not None:
            is_failed = _fails(fork)
            assert is_failed == bool(reference.errors), f"failed: {is_failed}\n{fork.story()}"
            if not is_failed:
                fork.check_states()
    return "failed" if is_failed else "rows"


def _fails(moving: MovingFunction) -> bool:
    try:
        moving.to_its_end()
    except FailedError:
        return True
    return False


def _never_back(stages: Sequence[Scenario]) -> list[Scenario]:
    """The same without a way back into an external database that the job has left.

    What was merged elsewhere in the meantime its ledger does not know, so that it may refuse.
    """
    found: list[Scenario] = []
    for stage in stages:
        kinds = [isinstance(each.backends[0], MemoryStoreSettings) for each in found]
        if any(kinds) and not kinds[-1] and isinstance(stage.backends[0], MemoryStoreSettings):
            stage = replace(stage, backends=(HeapSettings(),))
        found.append(stage)
    return found


def _faultless(stage: Scenario) -> Scenario:
    """The same without failures of others, which would count as those of the function."""
    (backend,) = stage.backends
    if isinstance(backend, MemoryStoreSettings):
        stage = replace(stage, backends=(replace(backend, faults=0),))
    return replace(stage, settings=replace(stage.settings, storage_faults=0))
