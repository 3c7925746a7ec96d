"""What the segment after a window costs: all keys of a pane have a value, and the pane is dropped.

A pane of some keys is filled and stored. Then it is dropped, while another one lives, and the next
segment is frozen, encoded and written. That should not depend on how many keys the pane had.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace

import numpy as np
import pyarrow as pa

from benchmarks.report import Size, Table, count, median, millis
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.state.keyed import KeyContext
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.subtask import KeyedSubtask, Owner
from mainstay.state.values import ValueType

KEYS = (10_000, 100_000)
GROUPS = 128
BACKENDS: dict[str, BackendSettings] = {"heap": HeapSettings(), "rocksdb": RocksSettings(256 << 20)}
DEAD, ALIVE = 10, 20


def measure(size: Size) -> list[Table]:
    table = Table(
        "The segment after a pane has died",
        ["backend, keys of the pane", "rows", "bytes", "drop ms", "encode and write ms"],
        "The pane was stored before. Rows and bytes are those of the segment that drops it.",
    )
    for name, settings in BACKENDS.items():
        for keys in map(size.of, KEYS):
            runs = [_run(settings, keys) for _ in range(size.repeats)]
            ref = runs[0][0]
            times = (median([run[number] for run in runs]) for number in (1, 2))
            cells = (count(ref.rows), count(ref.size_bytes), *map(millis, times))
            table.add(f"{name}, {count(keys)}", *cells)
    return [table]


def _run(settings: BackendSettings, keys: int) -> tuple[SegmentRef, float, float]:
    """The segment that drops a pane, and how long dropping and storing it take."""
    aggregation = aggregation_of({"n": Aggregate("sum", "n")}, pa.schema([("n", pa.int64())]))
    info = replace(aggregation.state(), name="panes", namespace=ValueType.of("long"))
    owner = Owner("windows", 0, 1, KeyGroupRange(0, GROUPS - 1), GROUPS)
    keyed = KeyedSubtask(owner, (info,), ValueType.of("long"), KeyContext(), settings)
    try:
        storage, panes = MemoryStorage(), keyed.backend.handles["panes"]
        for pane in (DEAD, ALIVE):
            numbers = np.arange(keys if pane == DEAD else 1)
            where = np.full(len(numbers), pane, np.int64)
            panes.fold_into(pa.array(numbers), numbers, where, [(numbers, None)])
        _stored(keyed, storage, "filled")
        started = time.perf_counter()
        panes.drop(DEAD)
        dropped = time.perf_counter()
        ref = _stored(keyed, storage, "dropped")
        return ref, dropped - started, time.perf_counter() - dropped
    finally:
        keyed.backend.close()


def _stored(keyed: KeyedSubtask, storage: MemoryStorage, name: str) -> SegmentRef:
    segment = keyed.freeze(name)
    assert segment is not None
    (tables,) = deque(keyed.encode(segment), maxlen=1)
    ref = keyed.write(storage, segment.id, tables)
    keyed.written(segment, ref, tables)
    return ref
