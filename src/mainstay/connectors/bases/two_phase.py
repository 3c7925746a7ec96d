"""A sink of transactions: for targets that can prepare one now and commit it later.

::

    class Ledger(TwoPhaseSink[Transaction]):
        def begin(self, id):            return client.begin(str(id))
        def write(self, tx, batch):      tx.insert(batch.to_pylist())
        def pre_commit(self, tx):       tx.prepare(); return tx.name.encode()
        def commit(self, handles):      [client.commit(handle.decode()) for handle in handles]
        def abort(self, tx):            client.rollback(tx.name)
        def recover(self, recovery):    ...   # roll back what is prepared and not in its handles

A subtask has one transaction at a time. With a snapshot it is pre-committed, and its handle is
part of the snapshot; once that is complete it is committed, again and again until it is known to
be. A failed epoch aborts nothing: its handles go with the next one. What no snapshot knows of
after a crash is rolled back in ``recover``, by the names (``TransactionId``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import pyarrow as pa

from mainstay.connectors.bases.transactions import TransactionId, owner_of
from mainstay.runtime.connector import Sink, SinkContext, SinkWriter

T = TypeVar("T")
R = TypeVar("R")


class TwoPhaseSink(Sink, Generic[T]):
    """Everything but ``commit`` and ``recover`` is called on a worker, in the background.

    An exception of ``begin``, ``write`` or ``pre_commit`` has the transaction aborted and all
    its rows written again into a new one, for ever and with growing pauses; a ``MainstayError``
    says that this is of no use, and the attempt fails. Calls to a target should have a timeout.
    """

    @abstractmethod
    def begin(self, id: TransactionId) -> T:
        """Begin a transaction under a name that no other has."""

    @abstractmethod
    def write(self, transaction: T, batch: pa.RecordBatch) -> None:
        """Write rows that nobody may see before the commit."""

    @abstractmethod
    def pre_commit(self, transaction: T) -> bytes:
        """Make the rows durable, so that a commit by the returned handle cannot fail any more.

        The handle must do without this process: another may commit it.
        """

    @abstractmethod
    def abort(self, transaction: T) -> None:
        """Give up a transaction that is begun, or that may or may not be pre-committed."""

    def open(self, context: SinkContext) -> SinkWriter:
        return TransactionWriter(self, context)


class TransactionWriter(SinkWriter, Generic[T]):
    """The transactions of one subtask. Rows are kept until they are pre-committed."""

    def __init__(self, sink: TwoPhaseSink[T], context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._owner = owner_of(context.lineage, context.uid)
        self._number = 0
        self._gathered: list[pa.RecordBatch] = []
        """Rows of the open transaction; the first ``_written`` of them are in it."""
        self._written = 0
        self._has_rows = False
        self._transaction: T | None = None
        self._doubtful: T | None = None

    def write(self, batch: pa.RecordBatch) -> Callable[[], None]:
        self._has_rows = True

        def work() -> None:
            if not any(batch is gathered for gathered in self._gathered):
                self._gathered.append(batch)
            self._guarded(self._write_gathered)

        return work

    def prepare(self, epoch: int) -> Callable[[], bytes] | None:
        if not self._has_rows:
            return None
        self._has_rows = False
        return self._pre_commit

    def _pre_commit(self) -> bytes:
        def work() -> bytes:
            return self._sink.pre_commit(self._write_gathered())

        handle = self._guarded(work)
        self._gathered, self._written, self._transaction = [], 0, None
        return handle

    def _write_gathered(self) -> T:
        """See that the open transaction holds all rows that were gathered."""
        if self._doubtful is not None:
            self._sink.abort(self._doubtful)
            self._doubtful = None
        if self._transaction is None:
            self._number += 1
            self._written = 0
            context = self._context
            id = TransactionId(self._owner, context.attempt, context.subtask, self._number)
            self._transaction = self._sink.begin(id)
        while self._written < len(self._gathered):
            self._sink.write(self._transaction, self._gathered[self._written])
            self._written += 1
        return self._transaction

    def _guarded(self, work: Callable[[], R]) -> R:
        try:
            return work()
        except BaseException:
            if self._transaction is not None:
                self._doubtful, self._transaction = self._transaction, None
            raise

    def close(self) -> None:
        """What was begun and holds nothing is given up; what holds rows belongs to no snapshot."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            self._sink.abort(transaction)
