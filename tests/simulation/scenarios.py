"""What the simulation is put through: graphs, settings drawn from a seed, and what must hold.

Every input row has an id of its own, the number of the split it comes from, and its place there.
Every stateful operator keeps the ids it has seen, in order, and passes each row on with them, so
that a row that is lost, doubled or out of order shows in the state and in the committed output.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import mainstay as ms
from mainstay.api import iterate
from mainstay.plan.check import check_graph
from mainstay.plan.planning import plan_of
from mainstay.runtime import feedback_log
from mainstay.runtime.operators import aggregate
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.runtime.status import Status
from mainstay.snapshot import history, units
from mainstay.snapshot.layout import slot_index
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.slots import decode_slot
from mainstay.state.backends.cached import tables as rocks_tables
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.external import retained
from mainstay.state.backends.heap import columns as heap_columns
from mainstay.state.backends.heap import tables as heap_tables
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.testing.inspect import committed_state
from mainstay.testing.memory_disk import MemoryRocksSettings
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.rivals import Rivalry, RivalSimulation
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation
from tests.ha.histories import check_leaders
from tests.namespaces import enter, namespaced

BUCKETS = 5
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
    buckets = namespaced(ms.ReducingState("long", operator.add), "long")
    last_of = namespaced(ms.ListState("long"), "string")

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
        self.keep_by_bucket(row.id)
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

    def keep_by_bucket(self, number: int) -> None:
        """States by key and namespace, as windows will keep them."""
        enter(self.buckets, number % BUCKETS).add(1)
        last_of = enter(self.last_of, "odd" if number % 2 else "even")
        if number % 7:
            last_of.add(number)
        else:
            last_of.clear()


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


def aggregates(env: Any, source: Any) -> None:
    start = source("in")
    start.key_by("key").aggregate(
        ids=ms.collect("id"),
        n=ms.count(),
        total=ms.sum("id"),
        newest=ms.max("id"),
        last=ms.last("key"),
        uid="totals",
    ).sink(ms.connectors.Memory(), uid="totals-out")
    start.key_by("key").process(Ledger(), ROW, uid="ledger").sink(ms.connectors.Memory(), uid="out")


class Around(ms.KeyedProcess):
    """Takes one from the rounds that a row has left, and counts how often it sees the row."""

    visits = ms.MapState("long", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.visits.put(row.id, (self.visits.get(row.id) or 0) + 1)
        yield one_round_less(row)


def one_round_less(row: Any) -> tuple[Any, ...]:
    return (*tuple(row)[:-1], row.other - 1)


def ledger(stream: Any) -> None:
    stream.key_by("key").process(Ledger(), ROW, uid="ledger").sink(
        ms.connectors.Memory(), uid="out"
    )


def a_loop(env: Any, source: Any) -> None:
    """Each row goes round as often as it says, with state of its key in the loop."""

    def body(head: Any) -> Any:
        stepped = head.key_by("key").process(Around(), ROW, uid="around")
        back = stepped.filter(lambda row: row.other >= 0, uid="back")
        return back, stepped.filter(lambda row: row.other < 0, uid="on")

    ledger(source("in").iterate(body, uid="loop"))


def two_loops(env: Any, source: Any) -> None:
    """The first is one chain from its head to its tail, the second goes through a shuffle."""

    def first(head: Any) -> Any:
        stepped = head.map(one_round_less, ROW, uid="step")
        back = stepped.filter(lambda row: row.other >= 1, uid="back1")
        return back, stepped.filter(lambda row: row.other < 1, uid="on1")

    def second(head: Any) -> Any:
        stepped = head.rebalance().map(one_round_less, ROW, uid="step2")
        back = stepped.filter(lambda row: row.other >= -4, uid="back2")
        return back, stepped.filter(lambda row: row.other < -4, uid="on2")

    once = source("in").union(source("in2")).iterate(first, uid="loop1")
    ledger(once.iterate(second, uid="loop2"))


def nested_loops(env: Any, source: Any) -> None:
    """Rows with an odd number of rounds left go round in the inner loop, others in the outer."""

    def inner(head: Any) -> Any:
        stepped = head.key_by("key").process(Around(), ROW, uid="around")
        back = stepped.filter(lambda row: row.other >= 0 and row.other % 2 == 0, uid="inner")
        return back, stepped.filter(lambda row: row.other < 0 or row.other % 2, uid="leave")

    def outer(head: Any) -> Any:
        stepped = head.rebalance().iterate(inner, uid="inner-loop")
        back = stepped.filter(lambda row: row.other >= 0, uid="outer")
        return back, stepped.filter(lambda row: row.other < 0, uid="on")

    ledger(source("in").iterate(outer, uid="outer-loop"))


LOOPS: dict[str, tuple[Callable[[Any, Any], None], tuple[str, ...]]] = {
    "loop": (a_loop, ("in",)),
    "two_loops": (two_loops, ("in", "in2")),
    "nested_loops": (nested_loops, ("in",)),
}
GRAPHS: dict[str, tuple[Callable[[Any, Any], None], tuple[str, ...]]] = {
    "chain": (a_chain, ("in",)),
    "fan_in": (fan_in, ("in", "in2", "in3")),
    "diamond": (diamond, ("in",)),
    "two_shuffles": (two_shuffles, ("in",)),
    "broadcast_side": (broadcast_side, ("in", "in2")),
    "aggregates": (aggregates, ("in",)),
}
BUILT = GRAPHS | LOOPS
UNORDERED = {*LOOPS, "changed"}
"""Graphs in which the rows of one split and key take many paths."""
COUNTED = {"broadcast_side": ("in",)}
"""Graphs of which only some inputs end in the ledger."""


class LocalMemory(ms.connectors.Memory):
    """Committed by the subtasks instead of the coordinator."""

    is_global = False


class PutOff(ms.connectors.SinkWriter):
    """Does its writing beside the loop; a part of it fails at first, done or not done."""

    def __init__(self, inner: Any, random: Random) -> None:
        self._inner = inner
        self._random = random
        self._gathered: list[Any] = []

    def write(self, batch: Any) -> Any:
        self._gathered.append(batch)
        if self._random.random() < 0.7:
            return None
        return self._failing_at_first(self._write_gathered())

    def prepare(self, epoch: int) -> Any:
        write = self._write_gathered()
        return self._failing_at_first(lambda: write() or self._inner.prepare(epoch))

    def _write_gathered(self) -> Callable[[], None]:
        batches, self._gathered = self._gathered, []

        def write() -> None:
            for batch in batches:
                self._inner.write(batch)

        return write

    def _failing_at_first(self, work: Callable[[], Any]) -> Callable[[], Any]:
        failures = self._random.choice([0] * 12 + [1, 2])
        results: list[Any] = []

        def run() -> Any:
            nonlocal failures
            if not results and (failures == 0 or self._random.random() < 0.5):
                results.append(work())
            if failures:
                failures -= 1
                raise OSError("the target is away")
            return results[0]

        return run


_away = Random()


class PutOffMemory(ms.connectors.Memory):
    """Writes beside the loop, to a target that is away at times."""

    def open(self, context: Any) -> Any:
        return PutOff(super().open(context), Random(f"{context.attempt}-{context.subtask}"))

    def commit(self, handles: Any) -> None:
        if _away.random() < 0.2:
            raise OSError("the target is away")
        super().commit(handles)


class LocalPutOffMemory(PutOffMemory):
    """The same, committed by the subtasks."""

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
    puts_off: bool
    restores_savepoint: bool
    starts: int = 1
    """How often the job is started until it has read all its rows. Each start but the last has a
    part of them and runs to its end: it finishes, or is stopped."""
    rivalry: Rivalry | None = None
    """Several drivers that all believe to lead, if there are."""
    backends: tuple[BackendSettings, ...] = (HeapSettings(),)
    """Where keyed state is kept: at first, and when the job is started again."""

    @property
    def make_sink(self) -> Callable[[], Any]:
        if self.puts_off:
            return PutOffMemory if self.global_sink else LocalPutOffMemory
        return ms.connectors.Memory if self.global_sink else LocalMemory

    @property
    def has_loops(self) -> bool:
        return self.graph in LOOPS

    @staticmethod
    def looped(seed: int) -> Scenario:
        """The same, but for a graph with loops."""
        graph = Random(f"loops-{seed}").choice(sorted(LOOPS))
        return replace(Scenario.of(seed), graph=graph)

    @staticmethod
    def unaligned(seed: int) -> Scenario:
        """The same with markers that overtake rows, at once or after a while; a third has loops."""
        random = Random(f"unaligned-{seed}")
        scenario = Scenario.looped(seed) if random.random() < 0.3 else Scenario.of(seed)
        timeout_s = random.choice([0.0, 0.0, 0.01, 0.05])
        # Cuts are quick, and a target that fails at each of them would let none be completed.
        every_s = max(scenario.snapshots.every_s, 0.02)
        snapshots = replace(scenario.snapshots, alignment_timeout_s=timeout_s, every_s=every_s)
        tuning = replace(scenario.tuning, window_bytes=random.choice([1, 200, 2000]))
        return replace(
            scenario, mode="unaligned", snapshots=snapshots, tuning=tuning, puts_off=False
        )

    @staticmethod
    def started_again(seed: int) -> Scenario:
        """The same in several starts: the job finishes, gets more rows, and is started again."""
        random = Random(f"starts-{seed}")
        scenario = random.choice([Scenario.of, Scenario.of, Scenario.looped])(seed)
        return replace(scenario, starts=random.randint(2, 4), splits=random.choice([1, 1, 2, 3]))

    @staticmethod
    def of_terms(seed: int) -> Scenario:
        """The same under leaders that are elected one after the other; some of them crash, too."""
        scenario = Scenario.of(seed)
        terms = Random(f"terms-{seed}").randint(1, 4)
        return replace(scenario, settings=replace(scenario.settings, terms=terms))

    @staticmethod
    def of_rivals(seed: int) -> Scenario:
        """The same without any election: several drivers believe to lead at the same time."""
        random = Random(f"rivalry-{seed}")
        rivalry = Rivalry(random.randint(2, 4), random.randint(0, 8), random.randint(0, 8))
        return replace(Scenario.of(seed), rivalry=rivalry)

    @staticmethod
    def of(seed: int) -> Scenario:
        random = Random(seed)
        # By a source of chance of its own, so that seeds keep what else they mean.
        asked = Random(f"asked-{seed}")
        stops = asked.random() < 0.3
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
                log_slots=Random(f"log-{seed}").choice([1, 2, 64]),
                halt_alignment_s=Random(f"halt-{seed}").choice([0.0, 0.01, 0.05, 5.0]),
            ),
            tuning=Tuning(
                window_bytes=random.choice([1, 200, 2000, 1 << 20]),
                least_window_bytes=Random(f"window-{seed}").choice([1, 100, 1 << 16]),
                batch_rows=random.choice([1, 4, 32]),
                first_slice_rows=random.randint(1, 6),
                max_slice_rows=6,
                slice_limit_s=Random(f"limit-{seed}").choice([0.0, 0.1]),
                first_piece_rows=Random(f"piece-{seed}").choice([1, 2]),
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
                savepoints=asked.choice([0, 0, 1, 2]),
                rescales=asked.choice([(), (), (asked.randint(1, 5),), (1, 4)]),
                stop_at_step=asked.randrange(900) if stops else None,
                stop_with_savepoint=asked.random() < 0.7,
                drain=asked.random() < 0.3,
            ),
            puts_off=random.random() < 0.4,
            restores_savepoint=asked.random() < 0.7,
        )

    @staticmethod
    def in_an_external_database(seed: int) -> Scenario:
        """The same with state in a database that outlives attempts."""
        scenario = Scenario.of(seed)
        snapshots = replace(scenario.snapshots, timeout_s=max(scenario.snapshots.timeout_s, 2.0))
        return replace(scenario, backends=(external_of(seed),), snapshots=snapshots)

    @staticmethod
    def in_versions(seed: int) -> Scenario:
        """The same with the protocol ``versioned``."""
        scenario = Scenario.in_an_external_database(seed)
        return replace(scenario, backends=(versioned_of(seed),))

    @staticmethod
    def in_databases(seed: int) -> Scenario:
        """The same with state in databases."""
        return replace(Scenario.of(seed), backends=(database_of(seed),))


def database_of(seed: int) -> MemoryRocksSettings:
    """There is memory for few changes: segments are spilled, and rows are read again."""
    random = Random(f"database-{seed}")
    part_bytes = random.choice([1, 4000, 20_000, 60_000])
    return MemoryRocksSettings(part_bytes, file_rows=random.choice([1, 5, 64]))


def external_of(seed: int) -> MemoryStoreSettings:
    """A database that all attempts share, and that does not answer some calls."""
    random = Random(f"external-{seed}")
    part_bytes = random.choice([1, 4000, 20_000, 60_000])
    faults = random.choice([0, 3, 10])
    protocol = Random(f"commits-{seed}").choice(["logged", "logged", "prepared"])
    return MemoryStoreSettings(f"seed-{seed}", part_bytes, faults, protocol)


def versioned_of(seed: int) -> MemoryStoreSettings:
    """The same in versions."""
    return replace(external_of(seed), protocol="versioned")


def drawn(scenario: Scenario) -> Scenario:
    """Most seeds keep state in databases, some of them only at first or only later."""
    heap, rocks = HeapSettings(), database_of(scenario.seed)
    # The other protocols have seeds of their own, with the bugs that are planted in them.
    external = replace(external_of(scenario.seed), protocol="logged")
    choices = [(heap,)] * 4 + [(rocks,)] * 4 + [(heap, rocks), (rocks, heap)]
    choices += [(external,)] * 4 + [(external, heap), (rocks, external)]
    backends = Random(f"backend-{scenario.seed}").choice(choices)
    # A database that is full holds rows back, and epochs that time out for ever have no end.
    timeout_s = max(scenario.snapshots.timeout_s, 0.0 if backends == (heap,) else 2.0)
    snapshots = replace(scenario.snapshots, timeout_s=timeout_s)
    return replace(scenario, backends=backends, snapshots=snapshots)


@dataclass(frozen=True)
class Outcome:
    """What a scenario came to, ready to be checked."""

    scenario: Scenario
    given: dict[str, list[tuple[Any, ...]]]
    output: list[tuple[Any, ...]]
    state: Callable[[str, str], Any]
    simulation: Simulation
    restored: Outcome | None = None
    """What a savepoint that was taken on the way comes to when a job is restored from it."""


def cuts(scenario: Scenario) -> list[int]:
    """How many of the rows there are at each start."""
    return [n * scenario.rows // scenario.starts for n in range(1, scenario.starts + 1)]


def rows_for(scenario: Scenario, name: str, first_id: int) -> list[tuple[Any, ...]]:
    random = Random(f"{scenario.seed}-{name}")
    rows = []
    bounds = [0]
    for before, after in pairwise([0, *cuts(scenario)]):
        splits = range(1, scenario.splits + 1)
        bounds += [before + n * (after - before) // scenario.splits for n in splits]
    for split, (first, last) in enumerate(pairwise(bounds)):
        for place in range(first, last):
            # Skewed: the first key gets about half of the rows.
            key = 0 if random.random() < 0.5 else random.randrange(scenario.keys)
            number = first_id + place
            rows.append((number, first_id + split, place, f"k{key}", random.randrange(4)))
    return rows


def play(scenario: Scenario, *, crash_free: bool = False) -> Outcome:
    """Run a scenario to its end: once, or stopped in the middle and restored elsewhere."""
    with small_sizes(scenario):
        return _play(scenario, crash_free)


@contextmanager
def small_sizes(scenario: Scenario) -> Iterator[None]:
    """Bounds so low that what happens beyond them happens with few rows."""
    with (
        patch.object(heap_tables, "SHARD_ABOVE", scenario.shard_above),
        patch.object(heap_columns, "SLICE_ROWS", 1),
        patch.object(rocks_tables, "CACHED", (0.0, 0.5)[scenario.seed % 4 // 2]),
        patch.object(aggregate, "GATHERED_ROWS", (1, 5, 1 << 15)[scenario.seed % 3]),
        patch.object(aggregate, "PASSED_ON", scenario.seed % 4),
        patch.object(feedback_log, "CHUNK_BYTES", (200, 1 << 20)[scenario.seed % 2]),
        patch.object(iterate, "MEMORY_BYTES", (300, 1 << 20)[scenario.seed % 4 // 2]),
        patch.object(history, "KEPT_EPOCHS", (1, 8)[scenario.seed % 2]),
        patch.object(retained, "LEAST_ROWS", (1, 20)[scenario.seed % 2]),
        patch.object(retained, "ROWS_AT_A_TIME", (5, 50_000)[scenario.seed % 4 // 2]),
        patch.object(units, "MOST_IN_MANIFEST", (300, 1 << 16)[scenario.seed % 8 // 4]),
    ):
        yield


def _play(scenario: Scenario, crash_free: bool) -> Outcome:
    _away.seed(scenario.seed)
    for backend in scenario.backends:
        if isinstance(backend, MemoryStoreSettings):
            backend.fresh()
    _, names = BUILT[scenario.graph]
    given = {name: rows_for(scenario, name, 1000 * n) for n, name in enumerate(names, 1)}
    kind = BlockingRows if scenario.blocking else CoarseRows
    starts = [
        {name: kind(ROW, rows[:cut], splits=scenario.splits) for name, rows in given.items()}
        for cut in cuts(scenario)
    ]
    given = {name: given[name] for name in COUNTED.get(scenario.graph, names)}
    run = Run(scenario, starts[0], given)
    settings = scenario.settings
    for number, sources in enumerate(starts[1:], 1):
        play_to_its_end(run, settings, crash_free)
        run.sources = sources
        settings = replace(settings, seed=scenario.seed + 1_000_000 * number)
    if crash_free:
        settings = replace(settings, crashes=0, storage_faults=0, savepoints=0, rescales=())
        return run.stage(scenario.parallelism, replace(settings, stop_at_step=None))
    parallelism, stops = scenario.parallelism, settings.stop_at_step is not None
    if scenario.rescaled_to is not None or stops:
        # The first stage is cancelled, or stopped as a user would do it.
        after = None if stops else scenario.stop_after
        run.stage(parallelism, replace(settings, stop_after_epochs=after))
        run.move(scenario.restores_savepoint and settings.stop_with_savepoint)
        parallelism = scenario.rescaled_to or parallelism
        settings = replace(settings, stop_at_step=None)
    outcome = run.stage(parallelism, settings)
    if scenario.starts > 1:
        check_nothing_is_new(run, parallelism, settings)
    if settings.savepoints and outcome.simulation.requests.savepoints:
        return replace(outcome, restored=run.restored(outcome.simulation.requests.savepoints[0]))
    return outcome


def play_to_its_end(run: Run, settings: SimulationSettings, crash_free: bool) -> None:
    """A start that is not the last: with what there is to read so far, until it has ended."""
    scenario = run.scenario
    if crash_free:
        settings = replace(settings, crashes=0, storage_faults=0, savepoints=0, rescales=())
    if crash_free or scenario.splits > 1:
        # Where a job stops before it has planned, its rows are divided otherwise the next time.
        settings = replace(settings, stop_at_step=None)
    run.stage(scenario.parallelism, settings)
    run.move(scenario.restores_savepoint and settings.stop_with_savepoint)


class Run:
    """The stages of a scenario: where the job's history is, and what its sinks have committed."""

    def __init__(self, scenario: Scenario, sources: dict[str, Any], given: dict[str, Any]) -> None:
        self.scenario = scenario
        self.sources = sources
        self.given = given
        self.storage = MemoryStorage()
        self.places: dict[str, Any] = {}
        self.origin: str | None = None
        self.history = "job"
        self.committed: list[Any] = []
        self.stopped_with: str | None = None
        self.stages = 0

    def plan(self, graph: Any) -> JobSpec:
        backends = self.scenario.backends
        return replace(plan_of(graph), backend=backends[min(self.stages, len(backends)) - 1])

    @property
    def votes(self) -> bool:
        """Whether a database votes on epochs."""
        stores = [b for b in self.scenario.backends if isinstance(b, MemoryStoreSettings)]
        return any(store.protocol == "prepared" for store in stores)

    def graph(self, parallelism: int) -> tuple[Any, dict[str, Any]]:
        scenario = self.scenario
        env = ms.Environment(
            parallelism=parallelism,
            max_parallelism=scenario.max_parallelism,
            mode=scenario.mode,
        )
        build, _ = BUILT[scenario.graph]
        build(env, lambda name: env.source(self.sources[name], uid=name))
        graph, sinks = replaced(env.graph(), {}, scenario.make_sink)
        check_graph(graph)
        return graph, sinks

    def stage(self, parallelism: int, settings: SimulationSettings) -> Outcome:
        self.stages += 1
        graph, sinks = self.graph(parallelism)
        origin = None if self.storage.list("log/") else self.origin
        start = "latest-or-new" if origin is None else "new"
        options = JobOptions(
            name="job",
            lineage=self.history,
            snapshots=self.scenario.snapshots,
            restart=RestartOptions(max_failures=200, backoff_s=0.005, max_backoff_s=0.05),
            restore=RestoreOptions(start, origin=origin),
            tuning=self.scenario.tuning,
        )
        rivalry = self.scenario.rivalry
        make = Simulation if rivalry is None else partial(RivalSimulation, rivalry=rivalry)
        simulation = make(
            self.plan(graph),
            options,
            settings,
            self.storage,
            places=self.places,
            plan_at=lambda other: self.plan(graph.at(other)),
        )
        simulation.run()
        check_leading(simulation)
        if simulation.coordinator.error is not None:
            raise AssertionError(simulation.story()) from simulation.coordinator.error
        check_refusals(simulation, votes=self.votes)
        check_failures(simulation)
        is_stopped = simulation.coordinator.status is Status.STOPPED
        self.stopped_with = simulation.requests.last_stop if is_stopped else None
        self.committed.append(sinks["out"])
        if len(self.committed) > 1:
            merge_memories(self.committed[-2], self.committed[-1])
        storage, job = self.storage, plan_of(graph)
        return Outcome(
            scenario=self.scenario,
            given=self.given,
            output=sinks["out"].rows(),
            state=lambda uid, name: self._committed(storage, job, uid, name),
            simulation=simulation,
        )

    def _committed(self, storage: Any, job: JobSpec, uid: str, name: str) -> Any:
        """What a client sees that no call fails for."""
        for backend in self.scenario.backends:
            if isinstance(backend, MemoryStoreSettings):
                backend.server().faults = 0
        return committed_state(storage, job, uid, name)

    def move(self, to_savepoint: bool) -> None:
        """Go on in another directory, from the savepoint that the job was stopped with."""
        if to_savepoint and self.stopped_with is not None:
            self.storage, self.origin = MemoryStorage(), self.stopped_with
            self.history += "-moved"

    def restored(self, savepoint: str) -> Outcome:
        """A job that is forked from a savepoint and runs to its end beside the other."""
        fork = Run(self.scenario, self.sources, self.given)
        fork.places, fork.origin, fork.stages = self.places, savepoint, self.stages
        fork.history = f"{self.history}-forked"
        settings = SimulationSettings(seed=self.scenario.seed, max_steps=60_000)
        return fork.stage(1 + self.scenario.seed % 5, settings)


def check_nothing_is_new(run: Run, parallelism: int, settings: SimulationSettings) -> None:
    """A job that has finished with all its rows ends at once when it is started again."""
    before = stored_by(run)
    simulation = run.stage(parallelism, settings).simulation
    assert simulation.coordinator.status is Status.FINISHED, simulation.story()
    assert not simulation.attempts, simulation.story()
    assert "no new input since" in simulation.coordinator.chronicle.report[0]
    assert stored_by(run) == before


def stored_by(run: Run) -> dict[str, bytes]:
    """What a run has stored. How the driver before it has ended may be noted at any later start."""
    paths = (path for path in run.storage.list("") if not path.startswith("failures/"))
    return {path: run.storage.read(path) for path in paths}


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
    assert set(counts) == {row[0] for row in rows}, f"output lost or invented rows\n{story()}"
    doubled = [number for number, count in counts.items() if count > 1]
    may_double = outcome.scenario.mode == "at_least_once"
    assert may_double or not doubled, f"output doubled {doubled}\n{story()}"
    check_state(outcome, rows)
    if outcome.restored is not None:
        check_state(outcome.restored, rows)


def check_seeds(scenario_of: Callable[[int], Scenario], first: int, count: int) -> None:
    """Play as many seeds, each with the backends it draws, and name the one that fails."""
    for seed in range(first, first + count):
        try:
            check(play(drawn(scenario_of(seed))))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def check_seed(scenario_of: Callable[[int], Scenario], seed: int) -> None:
    """Play one seed as it is, and name it if it fails."""
    try:
        check(play(scenario_of(seed)))
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def is_noticed(scenario_of: Callable[[int], Scenario], seeds: Iterable[int]) -> bool:
    """Whether a seed fails: a bug has been planted, and should not go unnoticed."""
    for seed in seeds:
        try:
            check(play(scenario_of(seed)))
        except Exception:
            return True
    return False


def check_refusals(simulation: Simulation, *, votes: bool = False) -> None:
    """Without faults of the storage, a request fails only where the job is over or halts.

    Where a database votes, the next attempt commits what the one before it has left in doubt: a
    savepoint that was being read from the tables then is refused.
    """
    over = ("the job is over", "another driver has taken over", "does not lead")
    away = "simulated: memory:seed-"
    reasons = (*over, "is being stopped or rescaled already", "holds in-flight rows", away)
    reasons += ("has moved on to epoch",) if votes else ()
    if not simulation.settings.storage_faults:
        for refusal in simulation.requests.refusals:
            assert any(reason in refusal for reason in reasons), simulation.story()


def check_leading(simulation: Simulation) -> None:
    """No leader did anything that only its successor may do."""
    assert not simulation.violations, f"{simulation.violations}\n{simulation.story()}"
    slots = simulation.witness.slots.items()
    records = [decode_slot(data, slot_index(path) or 0, path).record for path, data in slots]
    try:
        check_leaders(records)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{simulation.story()}") from error


def check_failures(simulation: Simulation) -> None:
    """Nobody saw what cannot be, not even an attempt that was restarted after it."""
    for failure in simulation.failures:
        error: BaseException | None = failure
        while error is not None:
            if isinstance(error, AssertionError):
                raise AssertionError(simulation.story()) from failure
            error = error.__cause__


def check_state(outcome: Outcome, rows: list[tuple[Any, ...]]) -> None:
    """The final state holds every input exactly once (or at least once), in order."""
    story = outcome.simulation.story
    by_key: dict[str, list[int]] = defaultdict(list)
    place = {row[0]: (row[1], row[2]) for row in rows}
    for row in rows:
        by_key[row[3]].append(row[0])
    ids = outcome.state("ledger", "ids")
    assert set(ids) == set(by_key), f"keys differ\n{story()}"
    assert {k: set(v) for k, v in ids.items()} == {k: set(v) for k, v in by_key.items()}, story()
    if outcome.scenario.mode == "at_least_once":
        return
    for key, seen in ids.items():
        assert sorted(seen) == sorted(by_key[key]), f"state of {key} is {seen}\n{story()}"
        check_order(outcome.scenario.graph, seen, {row[0]: row for row in rows}, story)
    assert outcome.state("ledger", "count") == {k: len(v) for k, v in by_key.items()}, story()
    splits = {k: dict(Counter(place[number][0] for number in v)) for k, v in by_key.items()}
    assert outcome.state("ledger", "splits") == splits, story()
    recent = {k: [n for n in seen if n % 3] for k, seen in ids.items()}
    assert outcome.state("ledger", "recent") == {k: v for k, v in recent.items() if v}, story()
    check_shrinking_state(outcome, ids)
    check_namespaces(outcome, ids)
    check_aggregates(outcome, by_key, {row[0]: row for row in rows})
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


def check_namespaces(outcome: Outcome, ids: dict[str, list[int]]) -> None:
    """The same for what is kept by key and namespace."""
    buckets: Counter[Any] = Counter()
    last_of: dict[Any, list[int]] = defaultdict(list)
    for key, seen in ids.items():
        for number in seen:
            buckets[key, number % BUCKETS] += 1
            kept = last_of[key, "odd" if number % 2 else "even"]
            kept.append(number) if number % 7 else kept.clear()
    story = outcome.simulation.story
    assert outcome.state("ledger", "buckets") == dict(buckets), story()
    there = {pair: kept for pair, kept in last_of.items() if kept}
    assert outcome.state("ledger", "last_of") == there, story()


def check_aggregates(
    outcome: Outcome, by_key: dict[str, list[int]], rows: dict[int, tuple[Any, ...]]
) -> None:
    """The accumulators of each key are those of a plain loop over its rows."""
    if outcome.scenario.graph != "aggregates":
        return
    story = outcome.simulation.story
    kept = outcome.state("totals", "aggregates")
    assert set(kept) == set(by_key), story()
    for key, row in kept.items():
        ids = by_key[key]
        assert sorted(row.ids) == sorted(ids), f"{key} has {row.ids}\n{story()}"
        assert tuple(row)[1:] == (len(ids), sum(ids), max(ids), key), f"{key}: {row}\n{story()}"
        check_order("aggregates", row.ids, rows, story)


def check_order(graph: str, seen: list[int], rows: dict[int, tuple[Any, ...]], story: Any) -> None:
    """Rows of one split and one key keep their order wherever one path leads to the key."""
    last: dict[Any, int] = {}
    for number in seen:
        _, split, position, _, other = rows[number]
        if graph in UNORDERED or (graph == "diamond" and number % 2):
            continue  # dealt out in turn: they take many paths
        path = (split, other) if graph in ("two_shuffles", "broadcast_side") else split
        assert last.get(path, -1) < position, f"{number} is out of order in {seen}\n{story()}"
        last[path] = position


def check_operator_state(outcome: Outcome, rows: list[tuple[Any, ...]]) -> None:
    story = outcome.simulation.story
    if outcome.scenario.graph == "diamond":
        passed = sorted(n for units in outcome.state("numbered", "passed") for n in units)
        assert passed == sorted(row[0] for row in rows if row[0] % 2 == 0), story()
    if outcome.scenario.graph in ("loop", "nested_loops"):
        visits: dict[int, int] = {}
        for of_key in outcome.state("around", "visits").values():
            visits.update(of_key)
        assert visits == {row[0]: row[4] + 1 for row in rows}, story()
    if outcome.scenario.graph == "two_shuffles":
        totals = Counter(row[4] for row in rows)
        assert outcome.state("batches", "total") == dict(totals), story()
