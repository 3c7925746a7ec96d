"""Replays: the in-flight rows of a restored snapshot, as one subtask takes them.

They come before anything new. An operator takes its own where it stands now, also inside a chain;
operators further down the chain take theirs first, because what comes from above was behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mainstay.runtime.deployment import InFlight
from mainstay.runtime.edge_names import edge_name
from mainstay.runtime.feedback_log import bytes_of, rows_of
from mainstay.runtime.spec import Broadcast, Chosen, Forward, HashByKey
from mainstay.runtime.worker.partition import Sender, chosen_subtasks
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import KeyGroupRange, subtasks_of


class Replays:
    """What one task has still to take of the snapshot that it was restored from."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, str, pa.RecordBatch]] = deque()

    def add(self, place: int, port: int, edge: str, batch: pa.RecordBatch) -> None:
        """Rows for an operator, by its place in the chain: those further down come first."""
        self._waiting.append((place, port, edge, batch))

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for _, _, _, batch in self._waiting)

    def take(self, max_rows: int) -> tuple[int, int, str, pa.RecordBatch]:
        """The next rows, with the place of the operator they are for, its input and their edge."""
        place, port, edge, batch = self._waiting.popleft()
        if batch.num_rows > max_rows:
            self._waiting.appendleft((place, port, edge, batch.slice(max_rows)))
            batch = batch.slice(0, max_rows)
        return place, port, edge, batch

    def kept(self) -> list[tuple[str, pa.RecordBatch]]:
        """All that is left, with the name of the edge of each batch: it is in-flight still."""
        return [(edge, batch) for _, _, edge, batch in self._waiting]


def own_rows(
    units: Sequence[InFlight],
    subtask: int,
    parallelism: int,
    groups: KeyGroupRange,
    max_parallelism: int,
) -> list[tuple[InFlight, pa.RecordBatch]]:
    """The rows that one subtask takes of those for its operator, in their order."""
    taken = []
    for unit in units:
        if not _is_for(unit, subtask, parallelism):
            continue
        for batch in rows_of(unit.rows):
            match unit.partitioning:
                case HashByKey(key):
                    owned = key_groups([batch.column(n) for n in key.columns], max_parallelism)
                    batch = batch.filter(pa.array((owned >= groups.first) & (owned <= groups.last)))
                case Chosen(chooser):
                    sender = Sender(edge_name(unit.edge).sender, subtask)
                    chosen = chosen_subtasks(chooser, batch, parallelism, sender)
                    batch = batch.filter(pa.array(chosen == subtask))
            if batch.num_rows:
                taken.append((unit, batch))
    return taken


def _is_for(unit: InFlight, subtask: int, parallelism: int) -> bool:
    """Whether a subtask gets any of it: what goes by key or choice is looked at row by row."""
    receiver = _receiver(unit, parallelism)
    return receiver is None or receiver == subtask


def _receiver(unit: InFlight, parallelism: int) -> int | None:
    """The one subtask that gets all of it; None where that goes by the rows, or is not one."""
    match unit.partitioning:
        case HashByKey() | Chosen() | Broadcast():
            return None
        case Forward():
            # As near as can be to what its sender emits next.
            return unit.subtask % parallelism
        case _:
            return unit.place % parallelism


def shares_of(
    units: Sequence[InFlight], parallelism: int, max_parallelism: int
) -> list[tuple[InFlight, ...]]:
    """What each subtask has to be sent of the rows for its operator, in their order.

    ``own_rows`` takes the same of a share as of all. Who gets which rows of an edge with a
    partitioner of the author's own is decided there alone.
    """
    shares: list[list[InFlight]] = [[] for _ in range(parallelism)]
    for unit in units:
        receiver = _receiver(unit, parallelism)
        if isinstance(unit.partitioning, HashByKey):
            for subtask, part in _by_key(unit, unit.partitioning, parallelism, max_parallelism):
                shares[subtask].append(part)
        elif receiver is None:
            for share in shares:
                share.append(unit)
        else:
            shares[receiver].append(unit)
    return [tuple(share) for share in shares]


def _by_key(
    unit: InFlight, partitioning: HashByKey, parallelism: int, max_parallelism: int
) -> Iterator[tuple[int, InFlight]]:
    """The parts of a unit that subtasks own. Mostly it is one, unless the job was rescaled."""
    parts: dict[int, list[pa.RecordBatch]] = {}
    for batch in rows_of(unit.rows):
        columns = [batch.column(number) for number in partitioning.key.columns]
        owners = subtasks_of(key_groups(columns, max_parallelism), parallelism, max_parallelism)
        for subtask in np.unique(owners).tolist():
            parts.setdefault(subtask, []).append(batch.filter(pa.array(owners == subtask)))
    for subtask, batches in parts.items():
        yield subtask, unit if len(parts) == 1 else replace(unit, rows=bytes_of(batches))
