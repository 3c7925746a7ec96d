"""Rows into a table of PostgreSQL, exactly once, by transactions that are prepared with snapshots.

::

    stream.sink(PostgresSink("postgresql://app@db/shop", "totals", create=True), uid="totals")

A subtask copies its rows into an open transaction. With a snapshot the transaction is prepared
(``PREPARE TRANSACTION``): it outlives the session and the server, and nobody sees its rows. When
the snapshot is complete it is committed. The transaction writes its own name into the table
``mainstay_ledger``, so that one that is not there any more is known to be committed.

What an attempt has prepared and no snapshot names is rolled back by the next one, and older
attempts cannot prepare any more (``fence``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mainstay.connectors.bases.transactions import TransactionId, owner_of
from mainstay.connectors.bases.two_phase import TwoPhaseSink
from mainstay.connectors.postgres.columns import (
    Column,
    composed,
    definitions,
    identifier,
    joined,
)
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.fence import (
    define,
    end_session,
    new_token,
    place_beside,
    session_name,
)
from mainstay.connectors.postgres.prepared import SETTING, refusal
from mainstay.connectors.postgres.session import Server, Session, table_name
from mainstay.connectors.postgres.target import Target
from mainstay.connectors.postgres.writing import copy_rows
from mainstay.errors import FencedError, SinkError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import SinkRecovery

FORMAT = 1
LEDGER = "mainstay_ledger"
EPOCHS_AT_ONCE = 3
"""How many transactions of a subtask may have to stay prepared at the same time."""
KEPT = 1_000
"""How many transactions of a subtask the ledger remembers, more than snapshots are kept."""
PRUNE_EVERY = 100

DEFINITION = """
CREATE TABLE IF NOT EXISTS {} (
    owner text,
    term bigint,
    subtask integer,
    number bigint,
    rows bigint NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, term, subtask, number)
)
"""


@dataclass(slots=True, eq=False)
class Transaction:
    """An open transaction. Its id has the term in the place of the attempt."""

    id: TransactionId
    session: Session
    schema: pa.Schema | None = None
    rows: int = 0
    may_be_prepared: bool = False


@dataclass(slots=True)
class _Known:
    """What this process has seen of the server, and need not look at again."""

    tokens: dict[tuple[str, int], str] = field(default_factory=dict)
    columns: dict[pa.Schema, dict[str, Column]] = field(default_factory=dict)
    """The table's, for each schema that was seen to fit."""
    has_slots: bool = False


@made_with_own_frames
class PostgresSink(TwoPhaseSink[Transaction]):
    """Appends rows to ``table``, whose columns are found by name.

    ``create`` makes the table when it is absent, from the stream's schema. ``timeout`` is how long
    a call may take before it is given up and made again.
    """

    def __init__(
        self,
        dsn: str,
        table: str | tuple[str, ...],
        *,
        create: bool = False,
        timeout: str | float = "1min",
    ) -> None:
        self.server = Server.checked(dsn, timeout, "PostgresSink")
        self.table = table_name(table, "PostgresSink")
        self.create = create
        self._target = Target(self.server, self.table, create, "PostgresSink")
        self._ledger = place_beside(self.table, LEDGER)
        self._known = _Known()

    def __getstate__(self) -> dict[str, Any]:
        # What the driver has seen says nothing of what a worker needs.
        return {**self.__dict__, "_known": _Known()}

    def check_schema(self, schema: pa.Schema) -> None:
        self._target.check_names(schema)

    # ------------------------------------------------------------ a transaction, on a worker

    def begin(self, id: TransactionId) -> Transaction:
        name = session_name(id.owner, id.attempt, id.subtask)
        session = self.server.connect(name, SinkError, is_patient=True)
        try:
            self._check_slots(session, id.subtask + 1)
            term = self._target.fence(id.owner).await_admission(session, id.attempt)
        except BaseException:
            session.close()
            raise
        return Transaction(replace(id, attempt=term), session)

    def write(self, transaction: Transaction, batch: pa.RecordBatch) -> None:
        session = transaction.session
        if transaction.schema is None:
            self._check_table(session, batch.schema)
            session.run("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            transaction.schema = batch.schema
        names = joined(batch.schema.names)
        copy = composed("COPY {} ({}) FROM STDIN (FORMAT csv)", identifier(self.table), names)
        copy_rows(session, copy, batch, self._known.columns[batch.schema], str(self._target))
        transaction.rows += batch.num_rows

    def pre_commit(self, transaction: Transaction) -> bytes:
        self._write_down(transaction)
        transaction.may_be_prepared = True
        transaction.session.prepare(str(transaction.id))
        transaction.session.close()
        return json.dumps({"format": FORMAT, "name": str(transaction.id)}).encode()

    def _write_down(self, transaction: Transaction) -> None:
        """Put the transaction into the ledger, unless another attempt has taken over."""
        id, fence = transaction.id, self._target.fence(transaction.id.owner)
        written = transaction.session.run(
            composed(
                "INSERT INTO {ledger} (owner, term, subtask, number, rows) "
                "SELECT owner, term, {subtask}, {number}, {rows} FROM {fence} "
                "WHERE owner = {owner} AND term = {term}",
                ledger=identifier(self._ledger),
                fence=identifier(fence.place),
                owner=id.owner,
                term=id.attempt,
                subtask=id.subtask,
                number=id.number,
                rows=transaction.rows,
            )
        )
        if written != 1:
            raise FencedError(
                f"{self._target}: transaction {id} is refused, because a newer attempt has taken "
                "over."
            )

    def abort(self, transaction: Transaction) -> None:
        session = transaction.session
        session.close()
        if not session.is_broken and not transaction.may_be_prepared:
            return
        # The server may not know that we are gone, and still be about to prepare it.
        name = f"{session.name}_abort"
        with self.server.connect(name, SinkError, is_patient=True) as other:
            end_session(other, session.pid, session.name)
            if transaction.may_be_prepared:
                _finish(other, "ROLLBACK", str(transaction.id))

    def _check_slots(self, session: Session, subtasks: int) -> None:
        if self._known.has_slots:
            return
        ((setting,),) = session.ask(SETTING)
        needed = subtasks * EPOCHS_AT_ONCE
        if setting < needed:
            each = f"{EPOCHS_AT_ONCE} for each of at least {subtasks} subtasks"
            instead = "PostgresUpsertSink, which needs none"
            told = refusal(self.server, setting, needed, "this sink", each, instead)
            raise SinkError(told)
        self._known.has_slots = True

    def _check_table(self, session: Session, schema: pa.Schema) -> None:
        if schema in self._known.columns:
            return
        statement, table = "CREATE TABLE IF NOT EXISTS {} ({})", identifier(self.table)
        self._known.columns[schema] = self._target.columns(
            session, schema, lambda: composed(statement, table, definitions(schema))
        )

    # ------------------------------------------------------------ commits and recovery

    def commit(self, handles: Sequence[bytes]) -> None:
        ids = [_id_of(handle) for handle in handles]
        if not ids:
            return
        name = session_name(ids[0].owner, ids[0].attempt, "commit")
        # Not named like a worker of its attempt: committing is right for any attempt.
        with self.server.connect(f"commit_{name}", SinkError) as session:
            for id in ids:
                self._commit(session, id)

    def _commit(self, session: Session, id: TransactionId) -> None:
        if not _finish(session, "COMMIT", str(id)) and not self._is_in_ledger(session, id):
            raise SinkError(
                f"{self._target}: transaction {id} belongs to a complete epoch, but is neither "
                "prepared nor committed there. Either somebody has rolled it back (ROLLBACK "
                "PREPARED), and its rows are lost, or the connection string leads to another "
                "database than before: correct it, and the job goes on."
            )
        if id.number % PRUNE_EVERY == 0:
            prune = "DELETE FROM {} WHERE owner = {} AND term = {} AND subtask = {} AND number < {}"
            ledger, oldest = identifier(self._ledger), id.number - KEPT
            session.run(composed(prune, ledger, id.owner, id.attempt, id.subtask, oldest))

    def _is_in_ledger(self, session: Session, id: TransactionId) -> bool:
        query = composed(
            "SELECT EXISTS (SELECT FROM {} "
            "WHERE owner = {} AND term = {} AND subtask = {} AND number = {})",
            identifier(self._ledger),
            id.owner,
            id.attempt,
            id.subtask,
            id.number,
        )
        return session.ask(query) == [(True,)]

    def recover(self, recovery: SinkRecovery) -> None:
        owner, attempt = owner_of(recovery.lineage, recovery.uid), recovery.attempt
        token = self._known.tokens.setdefault((owner, attempt), new_token())
        wanted = {str(_id_of(handle)) for handle in recovery.handles}
        with self.server.connect(session_name(owner, attempt, "driver"), SinkError) as session:
            self._check_slots(session, 1)
            define(session, self._ledger, composed(DEFINITION, identifier(self._ledger)))
            term = self._target.fence(owner).admit(session, attempt, token)
            for name in _prepared(session, owner, term):
                if name not in wanted:
                    _finish(session, "ROLLBACK", name)
            self._prune(session, owner, term, recovery.handles)

    def _prune(self, session: Session, owner: str, term: int, handles: Sequence[bytes]) -> None:
        """Forget transactions of older attempts that no snapshot can ask for any more."""
        kept = [[id.attempt, id.subtask, id.number] for id in map(_id_of, handles)]
        delete = composed(
            "DELETE FROM {} WHERE owner = {} AND term < {} "
            "AND begun_at < now() - interval '30 days' "
            "AND jsonb_build_array(term, subtask, number) <> ALL ({}::jsonb[])",
            identifier(self._ledger),
            owner,
            term,
            [json.dumps(each) for each in kept],
        )
        session.run(delete)


def _id_of(handle: bytes) -> TransactionId:
    told: dict[str, Any] = json.loads(handle)
    id = TransactionId.parse(told["name"]) if told.get("format") == FORMAT else None
    if id is None:
        raise SinkError(
            f"the handle {handle!r} was not written by this version of PostgresSink. Restore the "
            "job with the version that wrote it, or give the sink another uid."
        )
    return id


def _prepared(session: Session, owner: str, before: int) -> list[str]:
    """The prepared transactions of a sink that have a lower term."""
    query = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
    ids = (TransactionId.parse(name) for (name,) in session.ask(query))
    return [str(id) for id in ids if id is not None and id.owner == owner and id.attempt < before]


def _finish(session: Session, verb: str, name: str) -> bool:
    """Commit or roll back a prepared transaction; False if there is none of that name."""
    try:
        session.run(composed(f"{verb} PREPARED {{}}", name))
    except SinkError as error:
        if isinstance(error.__cause__, driver().errors.UndefinedObject):
            return False
        raise
    return True
