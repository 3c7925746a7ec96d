"""A growing table of PostgreSQL as a source: its rows in the order of a column that only grows.

::

    PostgresSource(
        "postgresql://app@db/shop", "orders", schema="id long, customer string, amount long",
        column="id",
    )
    PostgresSource(dsn, "events", schema="id long, at timestamp", column="at", tie="id")

A bounded source ends with the rows that are there when the job is started. A job that has finished,
or was stopped, and is started again reads those that have come since; so does a bounded start of
one that ran without end.

Rows must not change or go once they are there. The column is a whole number, a timestamp or an
``xid8``; where it is not unique, ``tie`` is another that tells rows of one value apart. A row is
read when no other can come before it any more (``horizon``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from mainstay.connectors.formats.malformed import Malformed
from mainstay.connectors.postgres.columns import Column, columns_of, composed, identifier
from mainstay.connectors.postgres.fence import text_of
from mainstay.connectors.postgres.reading import check_readable, declared
from mainstay.connectors.postgres.session import Server, Session, table_name
from mainstay.connectors.postgres.table_reader import SESSION, TableReader
from mainstay.errors import GraphError, SourceError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import seconds, whole_number
from mainstay.runtime.connector import Json, Source, Split, SplitReader
from mainstay.schema import to_schema

INTEGERS = ("int2", "int4", "int8")
TIMES = ("timestamp", "timestamptz")
_NUMBERED = re.compile(r"rows-(\d+)-to-(.*)")
"""The id of a range: the highest number has the highest end."""

_IS_UNIQUE = """
SELECT EXISTS (
    SELECT FROM pg_index i
    WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
      AND (SELECT array_agg(a.attname::text)
           FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
           JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
           WHERE k.place <= i.indnkeyatts) <@ %s::text[]
)
"""


@made_with_own_frames
class PostgresSource(Source):
    """Rows of ``table``: those that are there, and, unless ``bounded``, those that come.

    ``poll`` is how long it waits before it looks again where there was nothing new. ``lag`` is how
    long after a transaction has taken a value of the column it has begun to write. ``splits`` is
    into how many ranges the rows are divided that are there at the beginning. ``timeout`` is how
    long a call may take before it is given up and made again.
    """

    may_block = True
    replan_s = None
    new_input = "rows beyond the highest value that it has read"

    def __init__(
        self,
        dsn: str,
        table: str | tuple[str, ...],
        *,
        schema: Any,
        column: str,
        tie: str | None = None,
        bounded: bool = False,
        splits: int = 1,
        poll: str | float = "1s",
        lag: str | float = "1s",
        batch_rows: int = 8192,
        malformed: str = "fail",
        timeout: str | float = "1min",
    ) -> None:
        where = "PostgresSource"
        self.server = Server.checked(dsn, timeout, where)
        self.table = table_name(table, where)
        for name, value in (("column", column), ("tie", tie)):
            if not (isinstance(value, str) and value) and not (name == "tie" and value is None):
                raise GraphError(f"{where}: {name}={value!r} must be the name of a column.")
        Malformed.check(malformed, where)
        self.rows = to_schema(schema)
        self.schema = Malformed.with_column(self.rows, malformed)
        self.malformed = malformed
        self.malformed_column = Malformed.column_of(malformed)
        self.column, self.tie = column, tie
        self.bounded = bounded
        self.splits = whole_number(splits, "splits", where=where)
        self.batch_rows = whole_number(batch_rows, "batch_rows", where=where)
        self.poll_s = seconds(poll, "poll", positive=True)
        self.lag_s = seconds(lag, "lag")

    def where(self) -> str:
        return f"table {text_of(self.table)} in {self.server}"

    # ------------------------------------------------------------ planning

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        """Ranges of what is there, and one split without end for what comes."""
        known = [_NUMBERED.fullmatch(id) for id in seen]
        if None in known:
            return []  # one of them has no end, and all that comes
        number, after = max(((int(m[1]), m[2]) for m in known if m), default=(-1, None))
        with self.server.connect(SESSION, SourceError) as session:
            type_name = self._checked(session)
            if self.splits == 1 and not self.bounded:
                return [_split("rows" if after is None else "rows-to-come", after, None)]
            bounds = self._bounds(session, type_name, after)
        ranges = [
            _split(f"rows-{number + place}-to-{upto}", start, upto)
            for place, (start, upto) in enumerate(pairwise(bounds), 1)
        ]
        last = bounds[-1] if bounds else after
        return ranges if self.bounded else [*ranges, _split("rows-to-come", last, None)]

    def _checked(self, session: Session) -> str:
        """The type of the column, if the table is one that can be read."""
        columns = columns_of(session, self.table)
        if columns is None:
            raise SourceError(f"there is no {self.where()}. Correct the name.")
        check_readable(self.rows, columns, self.where())
        for name in filter(None, (self.column, self.tie)):
            if name not in columns:
                raise SourceError(
                    f"{self.where()} has no column {name!r}; it has {', '.join(columns)}."
                )
        self.check_type(columns[self.column])
        self.check_tie(columns)
        names = [name for name in (self.column, self.tie) if name is not None]
        if session.ask(_IS_UNIQUE, [text_of(self.table), names]) != [(True,)]:
            shown = ", ".join(f'"{name}"' for name in names)
            raise SourceError(
                f"{self.where()}: no unique index says that ({shown}) tells rows apart, and rows "
                "with the same values could be passed over. Name a column that does as tie=, as "
                f'in tie="id", or run CREATE UNIQUE INDEX ON {text_of(self.table)} ({shown}).'
            )
        return columns[self.column].type

    def check_tie(self, columns: dict[str, Column]) -> None:
        """Refuse a tie that may be null: such a row is neither before another nor behind it."""
        if self.tie is not None and columns[self.tie].is_nullable:
            raise SourceError(
                f"{self.where()}: tie={self.tie!r} may be null, and rows with null there cannot be "
                "put in order and would be passed over. Run ALTER TABLE "
                f'{text_of(self.table)} ALTER COLUMN "{self.tie}" SET NOT NULL, or give tie= a '
                "column that is never null, such as a primary key."
            )

    def check_type(self, column: Column) -> None:
        if column.type not in (*INTEGERS, *TIMES, "xid8"):
            raise SourceError(
                f"{self.where()}: column {column.name!r} is {column.shown_type}. Give column= a "
                "column that only grows: a whole number, a timestamp, or an xid8."
            )
        if self.splits > 1 and column.type == "xid8":
            raise SourceError(f"{self.where()} cannot be split by an xid8: use splits=1.")

    def _bounds(self, session: Session, type_name: str, after: str | None) -> list[str | None]:
        """Where the ranges of the rows that are there begin and end; nothing if there are none.

        ``after`` is where what was read before ends.
        """
        column, type = identifier([self.column]), identifier([type_name])
        beyond = composed("TRUE") if after is None else composed("{} > {}::{}", column, after, type)
        rows = composed("(SELECT * FROM {} WHERE {}) AS t", identifier(self.table), beyond)
        # Whole numbers could overflow on the way.
        wide = "::numeric" if type_name in INTEGERS else ""
        query = composed(f"SELECT min({{0}}){wide}, max({{0}}){wide} FROM {{1}}", column, rows)
        if type_name == "xid8":
            query = composed(
                "SELECT NULL, (SELECT {0} FROM {1} WHERE {0} IS NOT NULL "
                "ORDER BY {0} DESC LIMIT 1)",
                column,
                rows,
            )
        cut = composed(
            "SELECT (lowest + (highest - lowest) * n / {0})::{2}::text, highest::text "
            "FROM ({1}) AS ends (lowest, highest), generate_series(1, {0} - 1) AS n ORDER BY n",
            self.splits,
            query,
            type,
        )
        highest = composed("SELECT highest::text FROM ({}) AS ends (lowest, highest)", query)
        ((last,),) = session.ask(highest)
        if last is None:
            return []
        inner = [value for value, _ in session.ask(cut)] if self.splits > 1 else []
        return [after, *dict.fromkeys(value for value in inner if value != last), last]

    def read(self, split: Split, offset: Json | None) -> SplitReader:
        return TableReader(self, split, offset)


def _split(id: str, after: str | None, upto: str | None) -> Split:
    return Split(id, {"after": after, "upto": upto})


def read_schema(
    dsn: str,
    table: str | tuple[str, ...],
    columns: Sequence[str] | None = None,
    *,
    timeout: str | float = "1min",
) -> pa.Schema:
    """The schema of a table, for ``PostgresSource(schema=...)``; it asks the server.

    Types that have no counterpart, such as a numeric, are read as text.
    """
    server = Server.checked(dsn, timeout, "read_schema")
    place = table_name(table, "read_schema")
    with server.connect(SESSION, SourceError) as session:
        found = columns_of(session, place)
    if found is None:
        raise SourceError(f"there is no table {text_of(place)} in {server}. Correct the name.")
    if missing := [name for name in columns or () if name not in found]:
        raise SourceError(f"table {text_of(place)} has no columns {missing}; it has {list(found)}.")
    return pa.schema([declared(found[name]) for name in columns or found])
