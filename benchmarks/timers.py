"""Timers: what it takes to set one and to have it fire, and what each takes in memory.

The states of timers by themselves, in a process of their own for each case: a timer for each of
many keys is set, in no order of time, with an epoch every so often; then the first of them fire.
"RocksDB, order in memory" is the same database with an index of all times in memory, and "a
dictionary" is a dictionary of Python from key to time, and nothing else.

Time is that of the processor, over all threads, and includes the snapshots and what the database
writes. Memory is what the process has more after the last epoch than before the first.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.report import TINY, Size, Table, count, median
from mainstay.drive.process import settle_process
from mainstay.runtime.own_states import EVENT_TIMERS
from mainstay.state.backends.cached.shapes import TABLES
from mainstay.state.backends.contract import Place
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.backends.rocksdb import backend as rocks
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.kinds import TIMER
from mainstay.state.stored_key import StoredKey
from mainstay.state.timer_handles import EVENT_TIME, TimerSpec, moment
from mainstay.state.values import ValueType

TIMERS = (100_000, 1_000_000)
MOST_FIRED = 200_000
GROUPS = 128
EPOCH_TIMERS = 50_000
BATCH_TIMERS = 8192
MEMORY_BYTES = 128 << 20
_CHILD = "import sys; from benchmarks import timers as b; b.child(*sys.argv[1:])"

CLOSE = StateInfo(
    "close", TIMER, ValueType.of("timestamp"), timer=TimerSpec(EVENT_TIME), namespace=None
)
STATES = {"declared": CLOSE, "by key and time": EVENT_TIMERS}
CASES = ("a dictionary", "heap", "RocksDB, order in memory", "RocksDB")


class Kept:
    """Timers of one state on one backend, with epochs in between."""

    def __init__(self, case: str, info: StateInfo) -> None:
        self._context = KeyContext()
        groups = KeyGroupRange(0, GROUPS - 1)
        place = Place([info], ValueType.of("long"), groups, GROUPS, self._context, "bench")
        heap = case == "heap"
        settings: Any = HeapSettings() if heap else RocksSettings(memory_bytes=MEMORY_BYTES)
        with patch.object(rocks, "tables_of", _plain_tables) if "order" in case else nullcontext():
            self.backend = settings.open(place)
        self.handle = self.backend.handles[info.name]
        self._epochs = 0

    def set(self, keys: list[int], times: list[Any]) -> None:
        context, put = self._context, self.handle.set
        # As an operator does before the rows of a batch.
        self.backend.prefetch(keys)
        for key, at in zip(keys, times, strict=True):
            context.current_key = key
            put(at)

    def take_in(self, keys: list[int], times: list[Any]) -> None:
        """The timers of an epoch."""
        for start in range(0, len(keys), BATCH_TIMERS):
            part = slice(start, start + BATCH_TIMERS)
            self.set(keys[part], times[part])
        self.epoch()

    def epoch(self) -> None:
        """Freeze, encode, and write into the database, as a worker does."""
        self._epochs += 1
        name = f"s{self._epochs}"
        frozen = self.backend.freeze()
        self.backend.frozen_as(name)
        tables = list(self.backend.encode(frozen))[-1]
        self.backend.on_durable(name, tables)
        while (work := self.backend.next_work()) is not None:
            work.done(work.run())
        self.backend.relieve()

    def fire(self, most: int) -> int:
        taken = 0
        while taken < most and self.handle.due_us() is not None:
            self.handle.take()
            taken += 1
        return taken


def _plain_tables(place: Place) -> dict[str, Any]:
    return {
        info.name: TABLES[info.kind.shape](
            info, StoredKey.of(place.key, info.namespace), number, place.max_parallelism
        )
        for number, info in enumerate(place.states)
    }


def used_bytes() -> int:
    """What this process has in memory now, without what it could give back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def _given(timers: int) -> Iterator[tuple[list[int], list[Any]]]:
    """Each key once, in no order, with a time of its own."""
    chance = np.random.default_rng(7)
    keys = chance.permutation(timers)
    times = chance.permutation(timers) * 1000 + 1_700_000_000_000_000
    for start in range(0, timers, EPOCH_TIMERS):
        end = start + EPOCH_TIMERS
        yield keys[start:end].tolist(), [moment(at) for at in times[start:end].tolist()]


def child(case: str, state: str, timers: str) -> None:
    settle_process()
    print(json.dumps(in_this_process(case, state, int(timers))))


def in_this_process(case: str, state: str, timers: int) -> dict[str, float]:
    return _dictionary(timers) if case == CASES[0] else _kept(case, STATES[state], timers)


def _dictionary(timers: int) -> dict[str, float]:
    before = used_bytes()
    kept: dict[int, Any] = {}
    took = _seconds(lambda: [kept.update(zip(*part, strict=True)) for part in _given(timers)])
    return {"set": took / timers, "fire": 0.0, "bytes": (used_bytes() - before) / timers}


def _kept(case: str, info: StateInfo, timers: int) -> dict[str, float]:
    warm = Kept(case, info)
    warm.set([0], [moment(0)])
    warm.epoch()
    warm.fire(1)
    warm.backend.close()
    del warm
    before = used_bytes()
    kept, took = Kept(case, info), 0.0
    for keys, times in _given(timers):
        took += _seconds(lambda keys=keys, times=times: kept.take_in(keys, times))
    used = used_bytes() - before
    fired = 0.0
    most = min(timers, MOST_FIRED)
    for start in range(0, most, EPOCH_TIMERS):
        due = min(EPOCH_TIMERS, most - start)
        fired += _seconds(lambda due=due: (kept.fire(due), kept.epoch()))
    if kept.handle.index.count != timers - most:
        raise RuntimeError(f"{kept.handle.index.count} timers are left of {timers}")
    kept.backend.close()
    return {"set": took / timers, "fire": fired / most, "bytes": used / timers}


def _seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def measure(size: Size) -> list[Table]:
    return [_table(name, size) for name in STATES]


def _table(state: str, size: Size) -> Table:
    table = Table(
        f"Timers, {state}",
        ["where", "timers", "set µs", "fire µs", "bytes each", "MiB"],
        f"Keys are longs, each has one time; an epoch every {count(EPOCH_TIMERS)} timers. RocksDB "
        f"may use {MEMORY_BYTES >> 20} MiB. Medians of {min(3, size.repeats)}.",
    )
    for timers in map(size.of, TIMERS):
        for case in CASES:
            run = in_this_process if size is TINY else in_a_process
            runs = [run(case, state, timers) for _ in range(min(3, size.repeats))]
            put, fire, each = (median([r[what] for r in runs]) for what in ("set", "fire", "bytes"))
            cells = f"{put * 1e6:.1f}", f"{fire * 1e6:.1f}", f"{each:.0f}"
            table.add(case, count(timers), *cells, f"{each * timers / (1 << 20):.1f}")
    return table


def in_a_process(case: str, state: str, timers: int) -> dict[str, float]:
    root = Path(__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-c", _CHILD, case, state, str(timers)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
    )
    if finished.returncode:
        raise RuntimeError(f"timers on {case} failed:\n{finished.stderr}")
    figures: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return figures
