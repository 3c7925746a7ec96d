"""The modes that are compared: what each does for one snapshot.

The marker of an epoch always travels with the rows, as it does in every job. What differs is what
the sources may do meanwhile, and when they go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.paper.conductor import Act, Conductor

FIRST_BATCH_ROWS = 10_000
"""What a source gives in its first micro-batch, before it is known how fast batches are."""
MOST_GROWTH = 4.0
MOST_BATCH_ROWS = 1 << 24


@dataclass(frozen=True, slots=True)
class Mode:
    """``core`` is the job's own mode, ``like`` the system that takes its snapshots in this way.

    ``least_pause``: what share of an interval lies at least between two snapshots. Without it one
    whose snapshots take longer than the interval would do nothing else.
    """

    name: str
    make: Callable[[], Act]
    like: str
    core: str = "exactly_once"
    least_pause: float = 0.5


def _nothing(conductor: Conductor) -> None:
    """No snapshot: the sources go on, and so does everything else."""


def _stop_the_world(conductor: Conductor) -> int:
    """Stop the sources, wait until nothing is under way, snapshot, go on when it is durable."""
    conductor.shut()
    conductor.drain()
    epoch = conductor.snapshot()
    conductor.open()
    return epoch


def _blocking_drain(conductor: Conductor) -> int:
    """Stop the sources and send the marker behind the last row; go on when it is durable."""
    conductor.shut()
    epoch = conductor.snapshot()
    conductor.open()
    return epoch


def _drain(conductor: Conductor) -> int:
    """The same, but go on when the marker has come to the sinks: by then all states are taken."""
    conductor.shut()
    last = conductor.newest_cut
    under_way = conductor.begin_snapshot()
    conductor.await_cut(last)
    conductor.open()
    return under_way.result()


class _MicroBatches:
    """A bounded batch, then its snapshot, then the next batch.

    Without a pace, a batch is what the sources give in an interval, by how long it took to read the
    one before. With one, it is what is due when the batch begins.
    """

    def __init__(self) -> None:
        self._rows = FIRST_BATCH_ROWS

    def __call__(self, conductor: Conductor) -> int:
        began = time.monotonic()
        conductor.read_batch(self._rows)
        growth = conductor.every_s / (time.monotonic() - began)
        epoch = conductor.snapshot()
        conductor.open()
        # Where rows come at a pace, batches are read at once, and this grows without being used.
        rows = int(self._rows * min(growth, MOST_GROWTH))
        self._rows = min(max(rows, 1), MOST_BATCH_ROWS)
        return epoch


def _pipelined(conductor: Conductor) -> int:
    """Let the marker travel while the sources go on."""
    return conductor.snapshot()


NONE = Mode("none", lambda: _nothing, "a job without snapshots")
MODES = {
    mode.name: mode
    for mode in (
        NONE,
        Mode("stop-the-world", lambda: _stop_the_world, "Naiad"),
        Mode("drain, durable", lambda: _blocking_drain, "IBM Streams, blocking"),
        Mode("drain", lambda: _drain, "IBM Streams, not blocking"),
        Mode("micro-batches", _MicroBatches, "Spark, Trident", least_pause=0.0),
        Mode("pipelined", lambda: _pipelined, "Flink, Mainstay"),
        Mode("unaligned", lambda: _pipelined, "Flink, Mainstay", core="unaligned"),
    )
}
"""In the order in which they are shown."""
