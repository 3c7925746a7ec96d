"""Replays: the in-flight rows of a restored snapshot, as one subtask takes them.

They come before anything new. An operator takes its own where it stands now, also inside a chain;
operators further down the chain take theirs first, because what comes from above was behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from mainstay.runtime.deployment import InFlight
from mainstay.runtime.edge_names import edge_name
from mainstay.runtime.feedback_log import rows_of
from mainstay.runtime.spec import Broadcast, Chosen, Forward, HashByKey
from mainstay.runtime.worker.partition import Sender, chosen_subtasks
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import KeyGroupRange


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
    for number, unit in enumerate(units):
        if not _is_for(unit, number, subtask, parallelism):
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


def _is_for(unit: InFlight, number: int, subtask: int, parallelism: int) -> bool:
    """Whether a subtask gets any of it: what goes by key or choice is looked at row by row."""
    match unit.partitioning:
        case HashByKey() | Chosen() | Broadcast():
            return True
        case Forward():
            # As near as can be to what its sender emits next.
            return unit.subtask % parallelism == subtask
        case _:
            return number % parallelism == subtask
