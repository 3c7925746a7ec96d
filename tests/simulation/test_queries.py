"""Queries on live and committed state while workers crash, jobs are rescaled, leaders change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from mainstay.errors import QueryError
from mainstay.inspect.lookup import look_up
from mainstay.inspect.open_files import OpenFiles
from mainstay.inspect.reading import Origin, StateView
from mainstay.runtime.coordinator import queries
from mainstay.runtime.coordinator.in_flight import holds_in_flight_rows
from mainstay.runtime.coordinator.queries import Live, Queries, Question
from mainstay.runtime.coordinator.splits import SeenIds, unfinished_splits
from mainstay.runtime.worker.questions import Questions
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.manifest import Manifest
from mainstay.snapshot.units import with_units
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import subtask_of
from mainstay.testing.simulation import Simulation
from tests.simulation.checks import check
from tests.simulation.graphs import BUILT
from tests.simulation.noticing import is_noticed
from tests.simulation.playing import play, rows_for
from tests.simulation.scenarios import Scenario, briefly, drawn
from tests.simulation.seeds import in_chunks
from tests.simulation.shares import soaked

SEEDS = 20
CHUNK = 10
STATES = ("count", "ids", "splits")


@dataclass
class Asker:
    """Asks what the ledger has of a key at random moments, and remembers what it was told."""

    seed: int
    random: Random = field(init=False)
    waiting: dict[Any, int] = field(default_factory=dict)
    """How many questions each leader has not answered."""
    told: int = 0
    refused: int = 0
    largest: dict[tuple[int, int, str], int] = field(default_factory=dict)
    """The most rows that an attempt of a run had of a key."""
    compared: int = 0
    given: Mapping[str, Any] | None = None
    """The rows of each source, where state has just those that were read."""

    def __post_init__(self) -> None:
        self.random = Random(f"queries-{self.seed}")

    def after_a_step(self, simulation: Simulation) -> None:
        if self.random.random() < 0.05:
            self.ask(simulation)
        if self.random.random() < 0.01:
            self.compare(simulation)

    # ------------------------------------------------------------ live

    def ask(self, simulation: Simulation) -> None:
        key = f"k{self.random.randrange(4)}"
        groups = simulation.requests.job.max_parallelism
        (group,) = key_groups([pa.array([key])], groups).tolist()
        question = Question("ledger", STATES, [(group, key)])
        leader = simulation.coordinator
        self.waiting[leader] = self.waiting.get(leader, 0) + 1

        def tell(said: Live | Exception) -> None:
            self.waiting[leader] -= 1
            self.tell(id(simulation), key, said)

        leader.execution.ask(question, tell)

    def tell(self, run: int, key: str, said: Live | Exception) -> None:
        self.told += 1
        if isinstance(said, Exception):
            assert isinstance(said, QueryError), said
            self.refused += 1
            return
        (looks,) = said.looks
        count = looks["count"].changes.get(key, 0)
        _, ids = looks["ids"].changes.get(key, (True, []))
        _, splits = looks["splits"].changes.get(key, (False, {}))
        assert count == len(ids) == sum(splits.values()), "an answer is of several moments"
        at = (run, said.attempt, key)
        assert count >= self.largest.get(at, 0), "an attempt has less of a key than before"
        self.largest[at] = count

    # ------------------------------------------------------------ committed

    def compare(self, simulation: Simulation) -> None:
        """The latest epoch has just the rows that its sources had read, in all operators."""
        latest = read_history(simulation.storage).latest_epoch
        if latest is None or self.given is None:
            return
        manifest = with_units(
            simulation.storage, read_manifest(simulation.storage, latest.manifest)
        )
        origin = Origin("memory", False, manifest)
        keys = [(f"k{n}",) for n in range(12)]
        ids = looked_up(simulation, origin.view("ledger", "ids"), keys)
        counts = looked_up(simulation, origin.view("ledger", "count"), keys)
        assert counts == {key: len(some) for key, some in ids.items()}
        if holds_in_flight_rows(manifest):
            return  # what was read is in flight in part
        expected: dict[str, list[int]] = {}
        for number, key in rows_read(manifest, self.given):
            expected.setdefault(key, []).append(number)
        found = {key: sorted(some) for key, some in ids.items()}
        assert found == {key: sorted(some) for key, some in expected.items()}, simulation.story()
        if "batches" in manifest.operators:
            by_other = [(n,) for n in range(4)]
            totals = looked_up(simulation, origin.view("batches", "total"), by_other)
            assert sum(totals.values()) == sum(counts.values()), "operators are of several epochs"
        self.compared += 1


def looked_up(simulation: Simulation, view: StateView, keys: list[Any]) -> dict[Any, Any]:
    table = look_up(view, OpenFiles(simulation.storage), keys)
    shown = table.column(0).to_pylist(), table.column(view.columns.schema.name).to_pylist()
    return dict(zip(*shown, strict=True))


def rows_read(manifest: Manifest, given: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The ids and keys of the rows that sources had read at an epoch."""
    for name, rows in given.items():
        under_way = {
            unit["id"]: unit
            for part in manifest.operators[name].subtasks
            for unit in unfinished_splits(part)
        }
        for split in SeenIds(manifest.sources[name]).ids:
            start, end = map(int, split.split("-")[1:])
            if (unit := under_way.get(split)) is not None:
                at = unit["offset"]
                end = (start if at is None else int(at)) + int(unit["skip"] or 0)  # type: ignore
            yield from ((row[0], row[3]) for row in rows[start:end])


@contextmanager
def asking(asker: Asker) -> Iterator[None]:
    step = Simulation.step

    def asked(self: Simulation) -> None:
        step(self)
        asker.after_a_step(self)

    with patch.object(Simulation, "step", asked):
        yield


def played(seed: int, *, is_brief: bool = False) -> Asker:
    """A run with questions, in which live and committed state are right at any moment."""
    graph = ("chain", "fan_in", "two_shuffles")[seed % 3]
    scenario = replace(Scenario.of(seed), graph=graph)
    scenario = drawn(briefly(scenario) if is_brief else scenario)
    asker = Asker(seed)
    if scenario.mode == "exactly_once":
        asker.given = {
            name: rows_for(scenario, name, 1000 * n) for n, name in enumerate(BUILT[graph][1], 1)
        }
    with asking(asker):
        outcome = play(scenario)
        check(outcome)
    assert asker.waiting.get(outcome.simulation.coordinator, 0) == 0, "a query is not answered"
    return asker


@pytest.mark.parametrize("first", in_chunks(SEEDS, CHUNK, suite=10))
def test_answers_are_right_whatever_a_seed_does(first: int) -> None:
    askers = []
    for seed in range(first, first + CHUNK):
        try:
            askers.append(played(seed))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert sum(asker.told - asker.refused for asker in askers) > 10 * CHUNK
    assert sum(asker.refused for asker in askers) > CHUNK
    assert sum(asker.compared for asker in askers) > CHUNK


@pytest.mark.parametrize("seeds", soaked("queries", SEEDS))
def test_answers_are_right_over_many_seeds(seeds: range) -> None:
    for seed in seeds:
        played(seed, is_brief=True)


# ---------------------------------------------------------------- planted bugs


@contextmanager
def a_question_goes_to_the_owner_of_another_key() -> Iterator[None]:
    def wrong(group: int, parallelism: int, most: int) -> int:
        return (subtask_of(group, parallelism, most) + 1) % parallelism

    with patch.object(queries, "subtask_of", wrong):
        yield


@contextmanager
def the_states_of_an_answer_are_of_several_moments() -> Iterator[None]:
    right = Questions._look
    waiting: dict[int, Any] = {}

    def late(self: Questions, question: Any, look: Any) -> None:
        """The first state is that of the question before."""
        found = waiting.get(id(self))

        def mixed(state: str) -> Any:
            looked = look(state)
            if state != "count":
                return looked
            waiting[id(self)] = looked
            return looked if found is None else found

        right(self, question, mixed)

    with patch.object(Questions, "_look", late):
        yield


@contextmanager
def a_query_waits_for_an_attempt_that_has_ended() -> Iterator[None]:
    with patch.object(Queries, "end", lambda self, why: None):
        yield


@contextmanager
def committed_state_lacks_the_newest_segment() -> Iterator[None]:
    right = StateView.refs

    def fewer(self: StateView) -> Any:
        refs = right(self)
        return refs[:-1] if len(refs) > 1 else refs

    with patch.object(StateView, "refs", fewer):
        yield


@pytest.mark.parametrize(
    "plant",
    [
        a_question_goes_to_the_owner_of_another_key,
        the_states_of_an_answer_are_of_several_moments,
        a_query_waits_for_an_attempt_that_has_ended,
        committed_state_lacks_the_newest_segment,
    ],
)
def test_a_planted_bug_is_noticed(plant: Any) -> None:
    with plant():
        assert is_noticed(played, SEEDS), "no seed has noticed it"
