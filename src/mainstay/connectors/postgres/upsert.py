"""Rows into a table of PostgreSQL, one per key, each in the place of an older one.

::

    totals.sink(
        PostgresUpsertSink("postgresql://app@db/shop", "totals", key="customer", create=True),
        uid="totals",
    )

Rows are written as they come, a batch in a transaction: they are copied into a temporary table and
merged from there (``INSERT ... ON CONFLICT DO UPDATE``). Three more columns of the table,
``_mainstay_attempt``, ``_mainstay_epoch`` and ``_mainstay_number``, say how new a row is, and an
older one never replaces a newer: that keeps off workers of an attempt that was given up. The
attempt is counted by the database (``fence``), so that it is higher for everything that
is started later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.connectors.bases.idempotent import IdempotentSink, Order, Upserter
from mainstay.connectors.bases.transactions import owner_of
from mainstay.connectors.postgres.columns import (
    Column,
    composed,
    definitions,
    identifier,
    joined,
)
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.fence import (
    end_session,
    new_token,
    session_name,
    text_of,
)
from mainstay.connectors.postgres.session import Server, Session, column_names, table_name
from mainstay.connectors.postgres.target import Target
from mainstay.connectors.postgres.writing import copy_rows
from mainstay.errors import GraphError, SinkError
from mainstay.own_frames import made_with_own_frames
from mainstay.runtime.connector import SinkContext, SinkRecovery

ATTEMPT, EPOCH, NUMBER = "_mainstay_attempt", "_mainstay_epoch", "_mainstay_number"
GUARD = (ATTEMPT, EPOCH, NUMBER)
STAGED = "mainstay_rows"
PLACE = "_mainstay_place"
"""The number of a row in its batch: of several with one key the last counts."""


@made_with_own_frames
class PostgresUpsertSink(IdempotentSink):
    """Keeps the newest row of each ``key`` in ``table``, whose columns are found by name.

    The key needs a primary key or a unique index. ``create`` makes the table when it is absent.
    Without ``guard`` the three columns are not needed, and an attempt that was given up may put an
    older row in the place of a newer one. ``timeout`` is how long a call may take before it is
    given up and made again.
    """

    def __init__(
        self,
        dsn: str,
        table: str | tuple[str, ...],
        *,
        key: str | tuple[str, ...],
        create: bool = False,
        guard: bool = True,
        timeout: str | float = "1min",
    ) -> None:
        self.server = Server.checked(dsn, timeout, "PostgresUpsertSink")
        self.table = table_name(table, "PostgresUpsertSink")
        self.key = column_names(key, "key", "PostgresUpsertSink")
        self.create = create
        self.target = Target(self.server, self.table, create, "PostgresUpsertSink")
        self.guard = guard
        self._tokens: dict[tuple[str, int], str] = {}
        if reserved := sorted({*GUARD, PLACE} & set(self.key)):
            raise GraphError(f"PostgresUpsertSink: the key has {reserved}, which the sink keeps.")

    def check_schema(self, schema: pa.Schema) -> None:
        self.target.check_names(schema)

    def connect(self, context: SinkContext) -> Upserter:
        return PostgresUpserter(self, context)

    def recover(self, recovery: SinkRecovery) -> None:
        """Admit the attempt and end the sessions of older ones."""
        if not self.guard:
            return
        owner, attempt = owner_of(recovery.lineage, recovery.uid), recovery.attempt
        token = self._tokens.setdefault((owner, attempt), new_token())
        with self.server.connect(session_name(owner, attempt, "driver"), SinkError) as session:
            self.target.fence(owner).admit(session, attempt, token)


class PostgresUpserter(Upserter):
    """The session of one subtask. After a failure it begins a new one."""

    def __init__(self, sink: PostgresUpsertSink, context: SinkContext) -> None:
        self._sink = sink
        self._owner = owner_of(context.lineage, context.uid)
        self._attempt = context.attempt
        self._name = session_name(self._owner, context.attempt, context.subtask)
        self._session: Session | None = None
        self._term = 0
        self._staged: pa.Schema | None = None
        self._columns: dict[str, Column] = {}

    def upsert(self, batch: pa.RecordBatch, order: Order) -> None:
        self._check_keys(batch)
        session = self._connected()
        if self._staged != batch.schema:
            self._stage(session, batch.schema)
        session.run("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        names = joined([*batch.schema.names, PLACE])
        copy = composed("COPY {} ({}) FROM STDIN (FORMAT csv)", identifier([STAGED]), names)
        places = pa.array(np.arange(batch.num_rows))
        rows = batch.append_column(PLACE, places)
        copy_rows(session, copy, rows, self._columns, str(self._sink.target))
        session.run(self._merge(batch.schema, order))
        session.run("COMMIT")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _connected(self) -> Session:
        """A session without a transaction, in which nothing has failed."""
        old = self._session
        if old is not None and not old.is_broken:
            return old
        sink = self._sink
        session = sink.server.connect(self._name, SinkError, is_patient=True)
        try:
            if old is not None:
                # The server may not know that we are gone: it would hold the rows' locks.
                old.close()
                end_session(session, old.pid, old.name)
            if sink.guard:
                self._term = sink.target.fence(self._owner).await_admission(session, self._attempt)
        except BaseException:
            session.close()
            raise
        self._session, self._staged = session, None
        return session

    # ------------------------------------------------------------ the merge

    def _merge(self, schema: pa.Schema, order: Order) -> Any:
        """The statement that brings the staged rows into the table, each key once.

        In the order of the key, so that two subtasks lock the same rows in the same order.
        """
        sink = self._sink
        named = self._written(schema)
        values = [composed("s.{}", identifier([name])) for name in schema.names]
        if sink.guard:
            number = composed("{} + s.{}", order.number, identifier([PLACE]))
            values += [composed("{}", self._term), composed("{}", order.epoch), number]
        return composed(
            "INSERT INTO {table} AS t ({columns}) "
            "SELECT DISTINCT ON ({key}) {values} FROM {staged} AS s ORDER BY {key}, s.{place} DESC "
            "ON CONFLICT ({target}) {action}",
            table=identifier(sink.table),
            columns=joined(named),
            key=_separated([composed("s.{}", identifier([name])) for name in sink.key]),
            values=_separated(values),
            staged=identifier([STAGED]),
            place=identifier([PLACE]),
            target=joined(sink.key),
            action=self._action([name for name in named if name not in sink.key]),
        )

    def _action(self, replaced: list[str]) -> Any:
        if not replaced:
            return composed("DO NOTHING")
        assignments = _separated(
            [composed("{0} = excluded.{0}", identifier([name])) for name in replaced]
        )
        update = composed("DO UPDATE SET {}", assignments)
        if not self._sink.guard:
            return update
        old, new = (
            _separated([composed(f"{side}.{{}}", identifier([name])) for name in GUARD])
            for side in ("t", "excluded")
        )
        is_free = composed("t.{} IS NULL", identifier([ATTEMPT]))
        return composed("{} WHERE {} OR ({}) < ({})", update, is_free, old, new)

    def _written(self, schema: pa.Schema) -> list[str]:
        return [*schema.names, *(GUARD if self._sink.guard else ())]

    # ------------------------------------------------------------ before the first row

    def _stage(self, session: Session, schema: pa.Schema) -> None:
        """See that the rows fit, and make the table that they are copied into."""
        sink = self._sink
        self._columns = sink.target.columns(session, schema, lambda: self._definition(schema))
        self._check_guard()
        staged = identifier([STAGED])
        session.run(composed("DROP TABLE IF EXISTS pg_temp.{}", staged))
        session.run(
            composed(
                "CREATE TEMPORARY TABLE {} ON COMMIT DELETE ROWS AS "
                "SELECT {}, 0::bigint AS {} FROM {} WITH NO DATA",
                staged,
                joined(schema.names),
                identifier([PLACE]),
                identifier(sink.table),
            )
        )
        self._check_key(session, schema)
        self._staged = schema

    def _definition(self, schema: pa.Schema) -> Any:
        guard = [pa.field(name, pa.int64()) for name in GUARD] if self._sink.guard else []
        return composed(
            "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({}))",
            identifier(self._sink.table),
            definitions(pa.schema([*_with_key(schema, self._sink.key), *guard])),
            joined(self._sink.key),
        )

    def _check_guard(self) -> None:
        sink, columns = self._sink, self._columns
        if sink.guard and (missing := [name for name in GUARD if name not in columns]):
            added = ", ".join(f"ADD COLUMN {name} bigint" for name in missing)
            raise SinkError(
                f"{sink.target} has no columns {', '.join(missing)}, which say how new a row is. "
                f"Run ALTER TABLE {text_of(sink.table)} {added}; or do without them, with "
                "PostgresUpsertSink(..., guard=False)."
            )
        for column in (columns[name] for name in GUARD if sink.guard):
            if column.type != "int8":
                raise SinkError(
                    f"{sink.target}: column {column.name!r} is {column.shown_type}, which may not "
                    f"hold how new a row is. Run ALTER TABLE {text_of(sink.table)} ALTER COLUMN "
                    f"{column.name} TYPE bigint."
                )

    def _check_key(self, session: Session, schema: pa.Schema) -> None:
        try:
            session.run(composed("EXPLAIN {}", self._merge(schema, Order(0, 0, 0))))
        except SinkError as error:
            if not isinstance(error.__cause__, driver().errors.InvalidColumnReference):
                raise
            key = ", ".join(f'"{name}"' for name in self._sink.key)
            raise SinkError(
                f"{self._sink.target} has no primary key or unique index of exactly ({key}). Run "
                f"CREATE UNIQUE INDEX ON {text_of(self._sink.table)} ({key})."
            ) from error

    def _check_keys(self, batch: pa.RecordBatch) -> None:
        for name in self._sink.key:
            if name not in batch.schema.names:
                raise SinkError(
                    f"{self._sink.target}: the key column {name!r} is not in the stream, which "
                    f"has {', '.join(batch.schema.names)}. Correct key=, or add the column."
                )
            if batch.column(name).null_count:
                raise SinkError(
                    f"{self._sink.target}: a row has null for the key column {name!r}. Filter "
                    "such rows out before the sink."
                )


def _with_key(schema: pa.Schema, key: tuple[str, ...]) -> list[pa.Field]:
    return [field.with_nullable(field.nullable and field.name not in key) for field in schema]


def _separated(parts: list[Any]) -> Any:
    return driver().sql.SQL(", ").join(parts)
