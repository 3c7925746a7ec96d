"""One job after another from unaligned epochs, each with a program that is a little different.

What differs is what a restore must not depend on: the mode, the parallelism of the job and of
single operators, which operators are chained, the kind of an edge, an operator in between. Every
input must count once all the same, and in order where there is one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import mainstay as ms
from mainstay.errors import RestoreError
from mainstay.plan.check import check_graph
from mainstay.testing.inspect import latest_manifest
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from tests.simulation import checks, noticing, playing
from tests.simulation.checks import check_aggregates
from tests.simulation.ends import CoarseRows
from tests.simulation.ledgers import ROW, Ledger, one_round_less
from tests.simulation.playing import Outcome, Run, rows_for
from tests.simulation.scenarios import Scenario

KINDS = ("forward", "rebalance", "key")


@dataclass(frozen=True)
class Program:
    """One of the programs: what may be different, and what is the same in all of a seed."""

    mode: str
    parallelism: int
    to_map: str
    map_parallelism: int | None
    has_extra: bool
    to_filter: str
    filter_parallelism: int | None
    is_named: bool
    has_loop: bool
    has_totals: bool

    @staticmethod
    def of(random: Random, first: Program | None) -> Program:
        """Any program, or one that may follow the first of a seed."""
        return Program(
            mode="unaligned" if first is None else random.choice(MODES),
            parallelism=random.randint(1, 4),
            to_map=random.choice(KINDS),
            map_parallelism=random.choice([None, None, random.randint(1, 4)]),
            has_extra=random.random() < 0.4,
            to_filter=random.choice(KINDS),
            filter_parallelism=random.choice([None, None, random.randint(1, 4)]),
            is_named=random.random() < 0.6 if first is None else first.is_named,
            has_loop=random.random() < 0.25 if first is None else first.has_loop,
            has_totals=random.random() < 0.4 if first is None else first.has_totals,
        )

    def build(self, env: Any, source: Any) -> None:
        rows = source("in")
        if self.has_totals:
            aggregated(rows)
        if self.has_loop:
            rows = rows.iterate(self._body, uid="loop")
        mapped = sent(rows, self.to_map).map(
            tuple, ROW, uid=self._uid("map"), parallelism=self.map_parallelism
        )
        if self.has_extra:
            mapped = mapped.map(tuple, ROW, uid="extra")
        kept = mapped.key_by("key").process(Ledger(), ROW, uid="ledger")
        passed = sent(kept, self.to_filter).filter(
            lambda row: True, uid=self._uid("filter"), parallelism=self.filter_parallelism
        )
        passed.sink(ms.connectors.Memory(), uid="out")

    def _uid(self, name: str) -> str | None:
        return name if self.is_named else None

    def _body(self, head: Any) -> Any:
        stepped = sent(head, self.to_filter).map(one_round_less, ROW, uid="step")
        back = stepped.filter(lambda row: row.other >= 0, uid="back")
        return back, stepped.filter(lambda row: row.other < 0, uid="on")


MODES = ("unaligned", "unaligned", "exactly_once", "at_least_once")


def sent(stream: Any, kind: str) -> Any:
    """The stream as it is sent to the next operator."""
    if kind == "key":
        return stream.key_by("key")
    return stream.rebalance() if kind == "rebalance" else stream


def aggregated(stream: Any) -> None:
    stream.key_by("key").aggregate(
        ids=ms.collect("id"),
        n=ms.count(),
        total=ms.sum("id"),
        newest=ms.max("id"),
        last=ms.last("key"),
        uid="totals",
    ).sink(ms.connectors.Memory(), uid="totals-out")


@dataclass(frozen=True)
class Changes:
    """The programs of a seed, and everything else about it."""

    scenario: Scenario
    programs: tuple[Program, ...]

    @staticmethod
    def of(seed: int) -> Changes:
        random = Random(f"changes-{seed}")
        first = Program.of(random, None)
        later = [Program.of(random, first) for _ in range(random.choice([1, 1, 2]))]
        # A row that counted twice in between would be doubled for good.
        later = [*[replace(p, mode="unaligned") for p in later[:-1]], later[-1]]
        programs = (first, *later)
        if random.random() < 0.35:
            programs = in_order(programs, random)
        scenario = Scenario.unaligned(seed)
        settings = replace(
            scenario.settings, savepoints=0, rescales=(), stop_at_step=None, storage_faults=0
        )
        snapshots = replace(
            scenario.snapshots, alignment_timeout_s=random.choice([0.0, 0.0, 0.0, 0.01])
        )
        if first.has_loop:
            # Nothing overtakes within a loop: the way round takes longer than the least timeout.
            snapshots = replace(snapshots, timeout_s=max(snapshots.timeout_s, 1.0))
        scenario = replace(
            scenario,
            graph="changed",
            mode=programs[-1].mode,
            snapshots=snapshots,
            max_parallelism=random.choice([5, 16, 128]),
            splits=random.randint(1, 6),
            rows=random.randint(60, 160),
            settings=settings,
        )
        return Changes(scenario, programs)

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of one split and key take one path to the ledger in all programs."""
        if any(p.has_loop or p.map_parallelism or p.to_map == "rebalance" for p in self.programs):
            return False
        kinds = {p.to_map for p in self.programs}
        return len(kinds) == 1 or len({p.parallelism for p in self.programs}) == 1


def in_order(programs: tuple[Program, ...], random: Random) -> tuple[Program, ...]:
    """The programs with one path to the ledger for each split and key."""
    kinds = random.choice([["forward"], ["key"], ["forward", "key"]])
    parallelism = programs[0].parallelism if len(kinds) > 1 else None
    return tuple(
        replace(
            program,
            to_map=random.choice(kinds),
            map_parallelism=None,
            has_loop=False,
            parallelism=parallelism or program.parallelism,
        )
        for program in programs
    )


class ChangingRun(Run):
    """A run whose stages have programs of their own."""

    program: Program | None = None

    def go_on_with(self, program: Program, settings: SimulationSettings) -> Outcome:
        """Start the next program; where that is refused, do what the refusal says."""
        before, self.program = self.program, program
        try:
            return self.stage(program.parallelism, settings)
        except AssertionError as failure:
            refusal = failure.__cause__
            says_how = isinstance(refusal, RestoreError) and 'job.stop("path")' in str(refusal)
            if before is None or not says_how:
                raise
        self.program = before
        # A stop that drains takes epochs before its last: none of them is to end the stage.
        stopped = replace(
            settings,
            crashes=0,
            stop_at_step=0,
            stop_after_epochs=None,
            stop_with_savepoint=True,
        )
        self.stage(before.parallelism, stopped)
        assert not in_flight_units(self.storage), "the last epoch holds in-flight rows"
        self.program = program
        return self.stage(program.parallelism, settings)

    def graph(self, parallelism: int) -> tuple[Any, dict[str, Any]]:
        assert self.program is not None
        env = ms.Environment(
            parallelism=parallelism,
            max_parallelism=self.scenario.max_parallelism,
            mode=self.program.mode,
        )
        self.program.build(env, lambda name: env.source(self.sources[name], uid=name))
        graph, sinks = replaced(env.graph(), {}, self.scenario.make_sink)
        check_graph(graph)
        return graph, sinks


def play(changes: Changes) -> tuple[Outcome, int]:
    """Run all programs of a seed; also tells from how many epochs with in-flight rows."""
    with playing.small_sizes(changes.scenario):
        return _play(changes)


def _play(changes: Changes) -> tuple[Outcome, int]:
    scenario = changes.scenario
    given = {"in": rows_for(scenario, "in", 1000)}
    sources = {"in": CoarseRows(ROW, given["in"], splits=scenario.splits)}
    run = ChangingRun(scenario, sources, given)
    settings = replace(scenario.settings, stop_after_epochs=scenario.stop_after)
    held = 0
    for program in changes.programs[:-1]:
        run.go_on_with(program, settings)
        held += bool(in_flight_units(run.storage))
    return run.go_on_with(changes.programs[-1], scenario.settings), held


def in_flight_units(storage: Any) -> int:
    """How many pieces of in-flight rows the latest epoch holds."""
    manifest = latest_manifest(storage)
    if manifest is None:
        return 0
    return sum(
        units.count
        for operator in manifest.operators.values()
        for subtask in operator.subtasks
        for name, units in subtask.units.items()
        if name.startswith("channels_")
    )


def check(changes: Changes, outcome: Outcome) -> None:
    """Every input once in state and output, in order where one path leads to the ledger."""
    graph = "chain" if changes.is_ordered else "changed"
    outcome = replace(outcome, scenario=replace(outcome.scenario, graph=graph))
    checks.check(outcome)
    if changes.programs[0].has_totals and outcome.scenario.mode != "at_least_once":
        rows = outcome.given["in"]
        by_key: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by_key[row[3]].append(row[0])
        told = replace(outcome, scenario=replace(outcome.scenario, graph="aggregates"))
        check_aggregates(told, by_key, {row[0]: row for row in rows})


def check_seeds(first: int, count: int) -> None:
    for seed in range(first, first + count):
        changes = Changes.of(seed)
        try:
            check(changes, play(changes)[0])
        except Exception as error:
            raise AssertionError(f"seed {seed}: {changes.programs}: {error}") from error


def is_noticed(within: int) -> bool:
    """Whether a seed fails: a bug has been planted, and should not go unnoticed."""
    return noticing.is_noticed(_play_and_check, within)


def _play_and_check(seed: int) -> None:
    changes = Changes.of(seed)
    check(changes, play(changes)[0])
