"""Reads the rows of a table of PostgreSQL in the order of a column, from an offset on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstay.connectors.formats.malformed import settle
from mainstay.connectors.postgres.columns import columns_of, composed, identifier
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.holders import Wait
from mainstay.connectors.postgres.horizon import Horizon
from mainstay.connectors.postgres.reading import UNFIT, from_csv, selected, sorted_out, texts_of
from mainstay.connectors.postgres.session import Session
from mainstay.errors import SourceError
from mainstay.runtime.connector import Json, Polled, Split, SplitReader

if TYPE_CHECKING:
    from mainstay.connectors.postgres.source import PostgresSource

SESSION = "mainstay_source"
_PLACES = pa.schema([("value", pa.string()), ("tie", pa.string())])
"""The last two columns of what is fetched: they say where each row is."""


class TableReader(SplitReader):
    """Reads the rows of one range, or those after it. Nothing is opened before the first poll.

    An offset is the values of the two columns in the last row that was read, as text.
    """

    def __init__(self, source: PostgresSource, split: Split, offset: Json | None) -> None:
        self._source = source
        self._after: str | None = split.data["after"]
        self._upto: str | None = split.data["upto"]
        self._goes_on = self._upto is None
        """Whether the split has no end, but that which a bounded source gives it at each start."""
        self._offset = offset
        self._session: Session | None = None
        self._type = ""
        self._horizon = Horizon(source.lag_s)
        self._wait = Wait()
        self._has_more = False
        """Whether there is certainly more to read below the horizon."""
        self._read_upto: str | None = None
        """The horizon up to which all was read."""
        self.skipped = 0

    def poll(self, max_rows: int) -> Polled:
        session = self._session
        if session is None:
            session = self._session = self._source.server.connect(SESSION, SourceError)
            self._type = self._type_of(session)
            if self._source.bounded and self._goes_on:
                self._upto = self._highest(session)
                if self._upto is None:  # the table is empty
                    return Polled(None, self._offset, finished=True, goes_on=True)
        if not self._has_more:
            self._look(session)
        if self._horizon.settled == self._read_upto:
            return self._nothing()
        return self._fetch(session, min(max_rows, self._source.batch_rows))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _type_of(self, session: Session) -> str:
        source = self._source
        columns = columns_of(session, source.table) or {}
        for name in filter(None, (source.column, source.tie)):
            if name not in columns:
                raise SourceError(
                    f"{source.where()} is gone, or has no column {name!r} any more. Bring it back, "
                    "or start afresh with another source."
                )
        # A job that goes on is not planned again, and the table may have been altered.
        source.check_type(columns[source.column])
        source.check_tie(columns)
        return columns[source.column].type

    def _nothing(self) -> Polled:
        wait_s = self._horizon.next_look_in_s(self._source.poll_s, time.monotonic())
        return Polled(None, self._offset, ready_in_s=wait_s)

    def _look(self, session: Session) -> None:
        """See whether more can be read by now."""
        horizon = self._horizon
        value = self._upto if self._upto is not None else self._highest(session)
        horizon.see(value, time.monotonic())
        if horizon.wants_id(time.monotonic()):
            ((id,),) = session.ask("SELECT pg_current_xact_id()::text::bigint")
            horizon.wait_for(id)
        query = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        ((oldest,),) = session.ask(query)
        horizon.running(oldest)
        self.waits_for = self._wait.told(session, horizon.awaited, time.monotonic())

    def _highest(self, session: Session) -> str | None:
        query = composed(
            "SELECT t.{0}::text FROM {1} AS t WHERE t.{0} IS NOT NULL ORDER BY t.{0} DESC LIMIT 1",
            identifier([self._source.column]),
            identifier(self._source.table),
        )
        return next((value for (value,) in session.ask(query)), None)

    # ------------------------------------------------------------ rows

    def _fetch(self, session: Session, count: int) -> Polled:
        data = session.copy_out(self._statement(count))
        rows, batch = self._parsed(data) if data else (0, None)
        self._has_more = rows == count
        if not self._has_more:
            self._read_upto = self._horizon.settled
        is_over = self._upto is not None and not self._has_more
        if not rows and not is_over:
            return self._nothing()
        return Polled(batch, self._offset, finished=is_over, goes_on=self._goes_on)

    def _parsed(self, data: bytes) -> tuple[int, pa.RecordBatch | None]:
        """How many rows there are, and what becomes of them. Moves the offset behind the last."""
        source, width = self._source, len(self._source.rows)
        schema = pa.schema([*source.rows, *_PLACES])
        try:
            rows = from_csv(data, schema)
            batch = settle(source.malformed, rows.select(range(width)), {})
            whole = pa.Table.from_batches([rows]).select([width, width + 1])
            whole = whole.rename_columns(_PLACES.names)
        except UNFIT:
            texts = texts_of(data, schema.names)
            whole = pa.table([self._places(texts.column(width + n)) for n in (0, 1)], _PLACES)
            batch = self._without_bad(texts.select(range(width)), whole.column("value"))
        self._offset = [whole.column(name)[whole.num_rows - 1].as_py() for name in _PLACES.names]
        return whole.num_rows, batch if batch.num_rows else None

    def _places(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise SourceError(
                f"{self._source.where()}: the values of tie={self._source.tie!r} are no UTF-8 in a "
                "database without an encoding, and cannot be an offset. Give tie= another column."
            ) from error

    def _without_bad(self, texts: pa.Table, values: pa.ChunkedArray) -> pa.RecordBatch:
        source = self._source
        positions = [f"{source.where()}, {source.column} = {value}" for value in values.to_pylist()]
        good, bad = sorted_out(texts, source.rows, positions)
        if source.malformed == "skip":
            self.skipped += len(bad)
        return settle(source.malformed, good, bad)

    def _statement(self, count: int) -> Any:
        source = self._source
        column = identifier([source.column])
        order = [column, *([identifier([source.tie])] if source.tie is not None else [])]
        sql = driver().sql
        names = sql.SQL(", ").join(order)
        tie = order[1] if len(order) > 1 else sql.SQL("NULL")
        return composed(
            "COPY (SELECT {values}, {column}::text, {tie}::text FROM {table} AS t "
            "WHERE {after} AND t.{column} <= {upto}::{type} ORDER BY {order} LIMIT {count}) "
            "TO STDOUT (FORMAT csv)",
            values=sql.SQL(", ").join(selected(source.rows)),
            column=column,
            tie=tie,
            table=identifier(source.table),
            after=self._beginning(names),
            upto=self._horizon.settled,
            type=identifier([self._type]),
            order=sql.SQL(", ").join(composed("t.{}", name) for name in order),
            count=count,
        )

    def _beginning(self, names: Any) -> Any:
        """The condition that leaves out what was read, or belongs to another split."""
        source = self._source
        if self._offset is not None and source.tie is not None:
            return composed("({}) > ({}, {})", names, *self._offset)
        after = self._after if self._offset is None else self._offset[0]
        column, type_name = identifier([source.column]), identifier([self._type])
        return (
            composed("TRUE") if after is None else composed("{} > {}::{}", column, after, type_name)
        )
