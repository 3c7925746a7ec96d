"""A sink that keeps rows in the snapshot until it is complete: for targets without transactions.

::

    class Webhook(WriteAheadSink):
        def deliver(self, delivery):
            post(url, delivery.rows.to_pylist(), headers={"Idempotency-Key": delivery.key})

The rows of an epoch are part of the sink's state. Once the epoch is complete they are delivered,
epoch after epoch; a delivery that fails, or that nobody knows the outcome of, is made again with
the same key, rows and order. So every row arrives, and it arrives once where the target throws
away what it has already had by the key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mainstay.connectors.bases.row_handles import read_row_handle, write_row_handle
from mainstay.connectors.bases.transactions import owner_of
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter

FORMAT = 1
_METADATA = b"mainstay.delivery"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The rows of one subtask and one epoch. They are the same whenever it is delivered."""

    lineage: str
    uid: str
    attempt: int
    subtask: int
    epoch: int
    rows: pa.Table

    @property
    def owner(self) -> str:
        """A name for the sink of this job, the same in every attempt."""
        return owner_of(self.lineage, self.uid)

    @property
    def key(self) -> str:
        """A name that no other delivery has: the key by which a target can tell repetitions."""
        return f"{self.owner}_a{self.attempt}_s{self.subtask}_e{self.epoch}"

    def to_bytes(self) -> bytes:
        about = [self.lineage, self.uid, self.attempt, self.subtask, self.epoch]
        return write_row_handle(_METADATA, FORMAT, about, self.rows, compression="zstd")

    @staticmethod
    def from_bytes(data: bytes) -> Delivery:
        about, rows = read_row_handle(data, _METADATA, FORMAT, "write-ahead")
        lineage, uid, attempt, subtask, epoch = about
        return Delivery(lineage, uid, attempt, subtask, epoch, rows)


class WriteAheadSink(Sink):
    """The one method to write is ``deliver``."""

    def open(self, context: SinkContext) -> SinkWriter:
        return WriteAheadWriter(context)

    def commit(self, handles: Sequence[bytes]) -> None:
        for handle in handles:
            self.deliver(Delivery.from_bytes(handle))

    @abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Write the rows to the target. Called on a worker, in the background.

        Deliveries of a subtask come in the order of their epochs. An exception leaves the outcome
        open: it is called again, also by a later attempt, until it works. A ``MainstayError`` says
        that it never will, and the attempt fails.
        """


class WriteAheadWriter(SinkWriter):
    """Gathers the rows of an epoch."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def prepare(self, epoch: int) -> bytes | Callable[[], bytes] | None:
        batches, self._batches = self._batches, []
        if not batches:
            return None
        context = self._context

        def encode() -> bytes:
            delivery = Delivery(
                context.lineage,
                context.uid,
                context.attempt,
                context.subtask,
                epoch,
                pa.Table.from_batches(batches),
            )
            return delivery.to_bytes()

        return encode
