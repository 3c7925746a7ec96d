"""A sink that writes rows as they come, to a target that keeps one row per key.

::

    class Profiles(IdempotentSink):
        def connect(self, context):
            return ProfileWriter(self.address)      # an Upserter

Nothing waits for a snapshot, so readers see rows before their epoch is complete, and after a
crash may see a key go back to an older value and forward again. When an epoch is complete all its
rows are in the target, and what is written again after a crash is what was written before. The
target should keep the ``Order`` of a row and never overwrite one that is higher: workers of an
attempt that was given up may live on for a while.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from mainstay.runtime.connector import Sink, SinkContext, SinkWriter


class Order(NamedTuple):
    """Which of two rows of a key is newer. Orders of one key compare as tuples do."""

    attempt: int
    epoch: int
    number: int
    """The number of the batch's first row, counted by its subtask; the next row's is one more."""


class Upserter(ABC):
    """A connection of one subtask to the target. Its methods run in the background."""

    @abstractmethod
    def upsert(self, batch: pa.RecordBatch, order: Order) -> None:
        """Write the rows, each in the place of an older one of its key.

        Of several rows with the same key in a batch the last one counts. After an exception it is
        called again with the same rows; a ``MainstayError`` ends the attempt instead.
        """

    def close(self) -> None:  # noqa: B027 - there may be nothing to close
        """The job ends."""


class IdempotentSink(Sink):
    """The one method to write is ``connect``."""

    @abstractmethod
    def connect(self, context: SinkContext) -> Upserter:
        """A connection for one subtask. Called on the loop: do not wait for the target here."""

    def open(self, context: SinkContext) -> SinkWriter:
        return IdempotentWriter(self.connect(context), context.attempt)


class IdempotentWriter(SinkWriter):
    """Numbers the rows and passes them on; an epoch waits for all that came before it."""

    def __init__(self, upserter: Upserter, attempt: int) -> None:
        self._upserter = upserter
        self._attempt = attempt
        self._epoch = 0
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> Callable[[], None]:
        order = Order(self._attempt, self._epoch, self._rows)
        self._rows += batch.num_rows
        return lambda: self._upserter.upsert(batch, order)

    def prepare(self, epoch: int) -> None:
        self._epoch = epoch

    def close(self) -> None:
        self._upserter.close()
