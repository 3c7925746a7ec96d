"""The sink of the demonstration: rows wait beside the ledger until their epoch is complete.

A writer puts batches where nobody looks; what it prepares is only the name of that place, and
committing the name makes the batches visible. The places are in this process, but outside any
worker, as files would be: they survive a worker that is killed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from mainstay.connectors import Sink, SinkContext, SinkWriter

_numbers = itertools.count(1)
_ledgers: dict[int, _Places] = {}


@dataclass(slots=True)
class _Places:
    """What all copies of one ledger share."""

    waiting: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    committed: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Ledger(Sink):
    """Keeps committed rows of this process; copies shipped to workers find it by its number."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        _ledgers[self.number] = _Places()

    def open(self, context: SinkContext) -> SinkWriter:
        return _LedgerWriter(_ledgers[self.number], context)

    def commit(self, handles: Sequence[bytes]) -> None:
        places = _ledgers[self.number]
        with places.lock:
            for name in (handle.decode() for handle in handles):
                # Committing a second time finds the name committed, and changes nothing.
                if name not in places.committed:
                    places.committed[name] = places.waiting.pop(name)

    def rows(self) -> Iterator[tuple[int, str, int]]:
        """The committed rows."""
        for batches in list(_ledgers[self.number].committed.values()):
            for batch in batches:
                yield from zip(*batch.to_pydict().values(), strict=True)


class _LedgerWriter(SinkWriter):
    def __init__(self, places: _Places, context: SinkContext) -> None:
        self._places = places
        self._owner = f"{context.lineage}/{context.uid}/{context.attempt}/{context.subtask}"
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def prepare(self, epoch: int) -> bytes | None:
        batches, self._batches = self._batches, []
        if not batches:
            return None
        name = f"{self._owner}/{epoch}"
        with self._places.lock:
            self._places.waiting[name] = batches
        return name.encode()
