"""What a seed decides: the graph, its settings, what happens to it, and where its state is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import mainstay as ms
from mainstay.runtime.options import SnapshotOptions
from mainstay.runtime.spec import Tuning
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.testing.memory_disk import MemoryRocksSettings
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.rivals import Rivalry
from mainstay.testing.settings import SimulationSettings
from tests.simulation.compiled_ledgers import compiled_ledger, own_ledger
from tests.simulation.ends import LocalMemory, LocalPutOffMemory, PutOffMemory
from tests.simulation.graphs import GRAPHS, LOOPS
from tests.simulation.ledgers import ledger


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
    ledgers: tuple[Callable[[Any], Any], ...] = (ledger,)
    """The ledger that graphs end in: at first, and when the job is started again."""
    own_groups: tuple[int, ...] = ()
    """Numbers of key-groups that keyed operators say for themselves, dealt out to them in turn."""
    least: int | None = None
    """The parallelism that the job may be run at where there is too little room."""

    @property
    def make_sink(self) -> Callable[[], Any]:
        if self.puts_off:
            return PutOffMemory if self.global_sink else LocalPutOffMemory
        return ms.connectors.Memory if self.global_sink else LocalMemory

    @property
    def is_compiled(self) -> bool:
        """Whether its ledger is one that compiles, wherever it is compiled."""
        return self.ledgers != (ledger,)

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
    def compiled(seed: int) -> Scenario:
        """The same with a compiled ledger, all the way or at first or only later."""
        return replace(Scenario.of(seed), ledgers=compiled_of(seed))

    @staticmethod
    def compiled_unaligned(seed: int) -> Scenario:
        """The same with markers that overtake rows."""
        return replace(Scenario.unaligned(seed), ledgers=compiled_of(seed))

    @staticmethod
    def of_sides(seed: int) -> Scenario:
        """The same for a graph with side outputs, with markers that overtake rows or do not."""
        random = Random(f"sides-{seed}")
        scenario = random.choice([Scenario.of, Scenario.unaligned])(seed)
        return replace(scenario, graph=random.choice(["sides", "sides", "sides", "side_loop"]))

    @staticmethod
    def of_own_groups(seed: int) -> Scenario:
        """The same for operators with numbers of key-groups of their own, rescaled on the way."""
        random = Random(f"groups-{seed}")
        scenario = random.choice([Scenario.of, Scenario.unaligned, Scenario.unaligned])(seed)
        settings = replace(scenario.settings, rescales=(random.randint(1, 5), random.randint(1, 5)))
        numbers = [5, 7, 12, 31, 200]
        random.shuffle(numbers)
        return replace(scenario, settings=settings, own_groups=tuple(numbers[:3]))

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
    def of_room(seed: int) -> Scenario:
        """The same where hosts are lost and come back, and with them room for workers.

        In the end there is room for as many as the job may be run with, at least.
        """
        random = Random(f"room-{seed}")
        scenario = random.choice([Scenario.of, Scenario.of, Scenario.unaligned])(seed)
        parallelism = random.randint(2, 5)
        least = random.randint(1, parallelism - 1)
        changes = [random.randint(1, 5) for _ in range(random.randint(1, 3))]
        room = (parallelism, *changes, random.randint(least, 5))
        return replace(
            scenario,
            parallelism=parallelism,
            rescaled_to=None,
            least=least,
            settings=replace(scenario.settings, room=room, rescales=(), stop_at_step=None),
        )

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


def compiled_of(seed: int) -> tuple[Callable[[Any], Any], ...]:
    """Where a ledger is compiled, and where it is the same as ordinary Python."""
    choices = [(compiled_ledger,)] * 2 + [(compiled_ledger, own_ledger)]
    return Random(f"compiled-{seed}").choice([*choices, (own_ledger, compiled_ledger)])


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


BRIEF = 5
"""How many times fewer rows a brief scenario has."""


def briefly(scenario: Scenario) -> Scenario:
    """Three of four seeds with fewer rows, and what happens to the job sooner.

    In the same time of a processor they notice twice as many planted bugs as long ones; some bugs,
    such as those of rows that are left of a slice, are seen by long ones alone.
    """
    if Random(f"brief-{scenario.seed}").random() < 0.25:
        return scenario
    settings = scenario.settings
    stop_at_step = settings.stop_at_step and settings.stop_at_step // BRIEF
    within = max(100, settings.crash_within_steps // BRIEF)
    return replace(
        scenario,
        rows=max(8, scenario.rows // BRIEF),
        settings=replace(settings, crash_within_steps=within, stop_at_step=stop_at_step),
    )


def drawn(scenario: Scenario) -> Scenario:
    """Most seeds keep state in databases, some of them only at first or only later."""
    heap, rocks = HeapSettings(), database_of(scenario.seed)
    is_versioned = Random(f"protocol-{scenario.seed}").random() < 0.4
    external = (versioned_of if is_versioned else external_of)(scenario.seed)
    choices = [(heap,)] * 4 + [(rocks,)] * 4 + [(heap, rocks), (rocks, heap)]
    choices += [(external,)] * 4 + [(external, heap), (rocks, external)]
    backends = Random(f"backend-{scenario.seed}").choice(choices)
    # A database that is full holds rows back, and epochs that time out for ever have no end.
    timeout_s = max(scenario.snapshots.timeout_s, 0.0 if backends == (heap,) else 2.0)
    snapshots = replace(scenario.snapshots, timeout_s=timeout_s)
    return replace(scenario, backends=backends, snapshots=snapshots)
