"""What the simulation is put through: graphs, settings drawn from a seed, and what must hold.

Every input row has an id of its own, the number of the split it comes from, and its place there.
Every stateful operator keeps the ids it has seen, in order, and passes each row on with them, so
that a row that is lost, doubled or out of order shows in the state and in the committed output.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.plan.chained import chain
from mainstay.plan.check import check_graph
from mainstay.plan.physical import expand
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import Tuning
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.backends import heap_tables
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import replaced
from mainstay.testing.simulation import Simulation, SimulationSettings

ROW = "id long, split long, place long, key string, other long"


class Ledger(ms.KeyedProcess):
    """Keeps every id it sees, in four kinds of state, and tries to break them by aliasing."""

    ids = ms.ListState("long")
    count = ms.ReducingState("long", operator.add)
    splits = ms.MapState("long", "long")
    recent = ms.ValueState("array<long>")
    parity = ms.ValueState("long")
    slots = ms.MapState("long", "long")
    tail = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        self.count.add(1)
        if len(self.ids.get()) != self.count.get():
            raise AssertionError(f"{self.ids.get()} are not {self.count.get()} rows")
        self.splits.put(row.split, (self.splits.get(row.split) or 0) + 1)
        recent = self.recent.get() or []
        recent.append(row.id)
        if row.id % 3:
            self.recent.update(recent)
        recent.append(-1)  # must change nothing: what get() returned is ours, not the state's
        self.take_and_put_back(row.id)
        yield tuple(row)

    def take_and_put_back(self, number: int) -> None:
        """States that shrink: what was deleted must stay deleted."""
        self.parity.update(number if number % 4 else None)
        self.slots.put(number % 5, number)
        self.slots.remove((number + 1) % 5)
        if number % 6:
            self.tail.add(number)
        else:
            self.tail.clear()


class Marked(ms.CoKeyedProcess):
    """Counts what it sees under the rules that were broadcast to it."""

    ids = ms.ListState("long")
    rules = ms.OperatorListState("long", redistribute="broadcast")

    def process_left(self, row: Any, ctx: Any) -> Any:
        self.ids.add(row.id)
        yield tuple(row)

    def process_right(self, row: Any, ctx: Any) -> Any:
        self.rules.add(row.id)


class Numbered(ms.Process):
    """Counts what passes through a subtask, in operator state that a rescale deals out."""

    passed = ms.OperatorListState("long", redistribute="split")

    def process(self, row: Any, ctx: Any) -> Any:
        self.passed.add(row.id)
        return tuple(row)


class BatchLedger(ms.KeyedBatchProcess):
    """The same by batches."""

    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        counts = [group.num_rows for _, group in batch.groups()]
        before = self.total.get_many(batch.keys)
        after = [(old or 0) + n for old, n in zip(before, counts, strict=True)]
        self.total.put_many(batch.keys, after)
        return batch.batch


def a_chain(env: Any, source: Any) -> None:
    (
        source("in")
        .map(tuple, ROW, uid="map")
        .key_by("key")
        .process(Ledger(), ROW, uid="ledger")
        .filter(lambda row: True, uid="filter")
        .sink(ms.connectors.Memory(), uid="out")
    )


def fan_in(env: Any, source: Any) -> None:
    joined = source("in").union(source("in2").map(tuple, ROW, uid="map"), source("in3"))
    joined.key_by("key").process(Ledger(), ROW, uid="ledger").sink(
        ms.connectors.Memory(), uid="out"
    )


def diamond(env: Any, source: Any) -> None:
    start = source("in")
    odd = start.filter(lambda row: row.id % 2, uid="odd").rebalance()
    even = start.filter(lambda row: row.id % 2 == 0, uid="even").process(
        Numbered(), ROW, uid="numbered"
    )
    odd.map(tuple, ROW, uid="map").union(even).key_by("key").process(
        Ledger(), ROW, uid="ledger"
    ).sink(ms.connectors.Memory(), uid="out")


def two_shuffles(env: Any, source: Any) -> None:
    (
        source("in")
        .key_by("other")
        .process_batches(BatchLedger(), ROW, uid="batches")
        .key_by("key")
        .process(Ledger(), ROW, uid="ledger")
        .sink(ms.connectors.Memory(), uid="out")
    )


def broadcast_side(env: Any, source: Any) -> None:
    rules = source("in2").filter(lambda row: row.place < 5, uid="rules").broadcast()
    (
        source("in")
        .key_by("key", "other")
        .connect(rules)
        .process(Marked(), ROW, uid="marked")
        .key_by(lambda row: row.key, "string")
        .process(Ledger(), ROW, uid="ledger")
        .sink(ms.connectors.Memory(), uid="out")
    )


GRAPHS: dict[str, tuple[Callable[[Any, Any], None], tuple[str, ...]]] = {
    "chain": (a_chain, ("in",)),
    "fan_in": (fan_in, ("in", "in2", "in3")),
    "diamond": (diamond, ("in",)),
    "two_shuffles": (two_shuffles, ("in",)),
    "broadcast_side": (broadcast_side, ("in", "in2")),
}
COUNTED = {"broadcast_side": ("in",)}
"""Graphs of which only some inputs end in the ledger."""


class LocalMemory(ms.connectors.Memory):
    """Committed by the subtasks instead of the coordinator."""

    is_global = False


class CoarseRows(ms.connectors.Rows):
    """Rows in polls of a size of their own, whatever is asked for, so that slices cut them."""

    def read(self, split: Any, offset: Any) -> Any:
        reader = super().read(split, offset)
        poll = reader.poll
        reader.poll = lambda max_rows: poll(7)
        return reader


class BlockingRows(CoarseRows):
    """The same rows, polled beside the loop."""

    may_block = True


@dataclass(frozen=True)
class Scenario:
    """One run: everything that a seed decides."""

    seed: int
    graph: str
    mode: str
    parallelism: int
    rescaled_to: int | None
    stop_after: int
    rows: int
    splits: int
    keys: int
    blocking: bool
    shard_above: int
    global_sink: bool
    max_parallelism: int
    snapshots: SnapshotOptions
    tuning: Tuning
    settings: SimulationSettings

    @staticmethod
    def of(seed: int) -> Scenario:
        random = Random(seed)
        faults = random.choice([0, 0, 2, 5])
        return Scenario(
            seed=seed,
            graph=random.choice(sorted(GRAPHS)),
            mode=random.choice(["exactly_once"] * 4 + ["at_least_once"]),
            parallelism=random.randint(1, 5),
            rescaled_to=random.choice([None, None, random.randint(1, 5)]),
            stop_after=random.randint(1, 4),
            rows=random.randint(20, 120),
            splits=random.randint(1, 4),
            keys=random.choice([1, 3, 10]),
            blocking=random.random() < 0.3,
            shard_above=random.choice([1, 1 << 16]),
            global_sink=random.random() < 0.5,
            max_parallelism=random.choice([5, 16, 128]),
            snapshots=SnapshotOptions(
                every_s=random.choice([0.005, 0.02, 0.05]),
                retain=random.randint(1, 3),
                timeout_s=random.choice([0.4, 1.0, 5.0]),
                min_pause_s=random.choice([0.0, 0.01]),
                tolerable_failures=random.choice([10, 1000]),
                max_concurrent=random.randint(1, 3),
            ),
            tuning=Tuning(
                window_bytes=random.choice([1, 200, 2000, 1 << 20]),
                batch_rows=random.choice([1, 4, 32]),
                first_slice_rows=random.randint(1, 6),
                max_slice_rows=6,
                flush_s=0.001,
                max_chain=random.choice([1, 2, 8]),
            ),
            settings=SimulationSettings(
                seed=seed,
                crashes=random.choice([0, 1, 2, 3, 5]),
                storage_faults=faults,
                stall_odds=random.choice([0.0, 0.05]),
                crash_within_steps=random.choice([300, 900, 2000]),
                max_steps=60_000,
                check_invariants=random.random() < 0.1,
            ),
        )


@dataclass(frozen=True)
class Outcome:
    """What a scenario came to, ready to be checked."""

    scenario: Scenario
    given: dict[str, list[tuple[Any, ...]]]
    output: list[tuple[Any, ...]]
    state: Callable[[str, str], Any]
    simulation: Simulation


def rows_for(scenario: Scenario, name: str, first_id: int) -> list[tuple[Any, ...]]:
    random = Random(f"{scenario.seed}-{name}")
    rows = []
    bounds = [n * scenario.rows // scenario.splits for n in range(scenario.splits + 1)]
    for split in range(scenario.splits):
        for place in range(bounds[split], bounds[split + 1]):
            # Skewed: the first key gets about half of the rows.
            key = 0 if random.random() < 0.5 else random.randrange(scenario.keys)
            number = first_id + place
            rows.append((number, first_id + split, place, f"k{key}", random.randrange(4)))
    return rows


def play(scenario: Scenario, *, crash_free: bool = False) -> Outcome:
    """Run a scenario to its end: once, or stopped in the middle and restored elsewhere."""
    with patch.object(heap_tables, "SHARD_ABOVE", scenario.shard_above):
        return _play(scenario, crash_free)


def _play(scenario: Scenario, crash_free: bool) -> Outcome:
    build, names = GRAPHS[scenario.graph]
    given = {name: rows_for(scenario, name, 1000 * n) for n, name in enumerate(names, 1)}
    kind = BlockingRows if scenario.blocking else CoarseRows
    sources = {name: kind(ROW, rows, splits=scenario.splits) for name, rows in given.items()}
    storage, committed = MemoryStorage(), []
    stages = [(scenario.parallelism, None)]
    if scenario.rescaled_to is not None and not crash_free:
        stages = [(scenario.parallelism, scenario.stop_after), (scenario.rescaled_to, None)]
    for parallelism, stop_after in stages:
        env = ms.Environment(
            parallelism=parallelism,
            max_parallelism=scenario.max_parallelism,
            mode=scenario.mode,
        )
        build(env, lambda name, env=env: env.source(sources[name], uid=name))
        make_sink = ms.connectors.Memory if scenario.global_sink else LocalMemory
        graph, sinks = replaced(env.graph(), {}, make_sink)
        check_graph(graph)
        job = expand(chain(graph))
        settings = replace(scenario.settings, stop_after_epochs=stop_after)
        if crash_free:
            settings = replace(settings, crashes=0, storage_faults=0)
        options = JobOptions(
            name="job",
            lineage="job",
            snapshots=scenario.snapshots,
            restart=RestartOptions(max_failures=200, backoff_s=0.005, max_backoff_s=0.05),
            restore=RestoreOptions("latest-or-new"),
            tuning=scenario.tuning,
        )
        simulation = Simulation(job, options, settings, storage)
        simulation.run()
        committed += [sink for uid, sink in sinks.items() if uid == "out"]
        if simulation.coordinator.error is not None:
            raise AssertionError(simulation.story()) from simulation.coordinator.error
    if len(committed) == 2:
        merge_memories(committed[0], committed[1])
    return Outcome(
        scenario=scenario,
        given={name: given[name] for name in COUNTED.get(scenario.graph, names)},
        output=committed[-1].rows(),
        state=lambda uid, name: committed_state(storage, job, uid, name),
        simulation=simulation,
    )


def merge_memories(first: Any, second: Any) -> None:
    """Both stages write to one target in the real world; handles keep their names across them."""
    from mainstay.connectors import memory

    both = memory._committed[first.number] | memory._committed[second.number]
    memory._committed[second.number] = both


def check(outcome: Outcome) -> None:
    """Every input exactly once (or at least once) in state and output, order kept, sums right."""
    rows = [row for given in outcome.given.values() for row in given]
    story = outcome.simulation.story
    counts = Counter(row[0] for row in outcome.output)
    by_key: dict[str, list[int]] = defaultdict(list)
    place = {row[0]: (row[1], row[2]) for row in rows}
    for row in rows:
        by_key[row[3]].append(row[0])
    ids = outcome.state("ledger", "ids")
    assert set(counts) == {row[0] for row in rows}, f"output lost or invented rows\n{story()}"
    assert set(ids) == set(by_key), f"keys differ\n{story()}"
    assert {k: set(v) for k, v in ids.items()} == {k: set(v) for k, v in by_key.items()}, story()
    if outcome.scenario.mode == "at_least_once":
        return
    doubled = [number for number, count in counts.items() if count > 1]
    assert not doubled, f"output doubled {doubled}\n{story()}"
    for key, seen in ids.items():
        assert sorted(seen) == sorted(by_key[key]), f"state of {key} is {seen}\n{story()}"
        check_order(outcome.scenario.graph, seen, {row[0]: row for row in rows}, story)
    assert outcome.state("ledger", "count") == {k: len(v) for k, v in by_key.items()}, story()
    splits = {k: dict(Counter(place[number][0] for number in v)) for k, v in by_key.items()}
    assert outcome.state("ledger", "splits") == splits, story()
    recent = {k: [n for n in seen if n % 3] for k, seen in ids.items()}
    assert outcome.state("ledger", "recent") == {k: v for k, v in recent.items() if v}, story()
    check_shrinking_state(outcome, ids)
    check_operator_state(outcome, rows)


def check_shrinking_state(outcome: Outcome, ids: dict[str, list[int]]) -> None:
    """What a plain loop over the ids of each key, in the order they were seen, comes to."""
    parity, slots, tail = {}, {}, {}
    for key, seen in ids.items():
        entries: dict[int, int] = {}
        kept: list[int] = []
        for number in seen:
            entries[number % 5] = number
            entries.pop((number + 1) % 5, None)
            kept = [*kept, number] if number % 6 else []
        slots[key] = entries
        if kept:
            tail[key] = kept
        if seen[-1] % 4:
            parity[key] = seen[-1]
    story = outcome.simulation.story
    assert outcome.state("ledger", "parity") == parity, story()
    assert outcome.state("ledger", "slots") == slots, story()
    assert outcome.state("ledger", "tail") == tail, story()


def check_order(graph: str, seen: list[int], rows: dict[int, tuple[Any, ...]], story: Any) -> None:
    """Rows of one split and one key keep their order wherever one path leads to the key."""
    last: dict[Any, int] = {}
    for number in seen:
        _, split, position, _, other = rows[number]
        if graph == "diamond" and number % 2:
            continue  # dealt out in turn: they take many paths
        path = (split, other) if graph in ("two_shuffles", "broadcast_side") else split
        assert last.get(path, -1) < position, f"{number} is out of order in {seen}\n{story()}"
        last[path] = position


def check_operator_state(outcome: Outcome, rows: list[tuple[Any, ...]]) -> None:
    story = outcome.simulation.story
    if outcome.scenario.graph == "diamond":
        passed = sorted(n for units in outcome.state("numbered", "passed") for n in units)
        assert passed == sorted(row[0] for row in rows if row[0] % 2 == 0), story()
    if outcome.scenario.graph == "two_shuffles":
        totals = Counter(row[4] for row in rows)
        assert outcome.state("batches", "total") == dict(totals), story()
