"""The tables of states in PostgreSQL: how they are called, made, read and written.

In the schema of the job's state there are three tables of Mainstay's own: the attempt that is
admitted for each operator (the *fence*), the segments that were applied (the *ledger*), and which
table holds which state.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from mainstay.connectors.postgres.columns import composed, identifier, joined
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.states.readable import OWN, as_hex, columns_for, shown_columns
from mainstay.connectors.postgres.states.sessions import StateRefusedError
from mainstay.state.backends.external.descriptor import info_of
from mainstay.state.backends.external.store import StateChanges, StateColumns, TableSet
from mainstay.state.operations import columns_of
from mainstay.state.ttl import type_named

FENCE, LEDGER, CATALOG = "mainstay_state_fence", "mainstay_state_ledger", "mainstay_state_tables"
LONGEST_KEY = 2600
"""Bytes that an index of the server takes."""
LONGEST_NAME = 63

_OWN_TABLES = """
CREATE TABLE IF NOT EXISTS {fence} (
    lineage text, uid text, attempt bigint NOT NULL, raised_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lineage, uid)
);
CREATE TABLE IF NOT EXISTS {ledger} (
    lineage text, uid text, making text, segment text, first_group int, last_group int NOT NULL,
    epoch bigint NOT NULL, number bigint NOT NULL,
    PRIMARY KEY (lineage, uid, making, segment, first_group)
);
CREATE TABLE IF NOT EXISTS {catalog} (
    lineage text, uid text, making text, state text, name text NOT NULL,
    PRIMARY KEY (lineage, uid, making, state)
)
"""

_TABLE = """
CREATE TABLE {table} (k bytea, s bytea, v bytea NOT NULL, {columns}, PRIMARY KEY (k, s))
WITH (fillfactor = 80)
"""


class StateTables:
    """The tables in one schema. A connection is given, and a transaction is open."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self.fence, self.ledger, self.catalog = map(self.named, (FENCE, LEDGER, CATALOG))

    def named(self, name: str) -> Any:
        return identifier((self.schema, name))

    def make_own(self, connection: Any) -> None:
        """Make Mainstay's own tables where there are none."""
        # The server does not put those in line who do this at once.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('mainstay_state'))")
        schema = identifier((self.schema,))
        # IF NOT EXISTS asks for the right to make it first, which a role may lack.
        found = "SELECT FROM pg_namespace WHERE nspname = %s"
        if connection.execute(found, [self.schema]).fetchone() is None:
            connection.execute(composed("CREATE SCHEMA IF NOT EXISTS {}", schema))
        names = {"fence": self.fence, "ledger": self.ledger, "catalog": self.catalog}
        connection.execute(composed(_OWN_TABLES, **names))

    def known(self, connection: Any, tables: TableSet) -> dict[str, str]:
        """The names of the tables of each state."""
        query = "SELECT state, name FROM {} WHERE (lineage, uid, making) = ({}, {}, {})"
        whose = (tables.lineage, tables.uid, tables.making)
        return dict(connection.execute(composed(query, self.catalog, *whose)).fetchall())

    def make(self, connection: Any, tables: TableSet, state: StateColumns) -> None:
        """Make the table of a state."""
        name = table_name(tables, state.name)
        defined = defined_as(columns_for(schema_of(state)))
        connection.execute(composed(_TABLE, table=self.named(name), columns=defined))
        whose = (tables.lineage, tables.uid, tables.making, state.name, name)
        statement = "INSERT INTO {} VALUES ({}, {}, {}, {}, {})"
        connection.execute(composed(statement, self.catalog, *whose))

    def write(self, connection: Any, name: str, changes: StateChanges) -> None:
        """Do to a table what a segment says."""
        table = self.named(name)
        if changes.cleared:
            statement = composed("DELETE FROM {} WHERE k = ANY(%b::bytea[])", table)
            connection.execute(statement, [list(changes.cleared)])
        if changes.removed:
            statement = composed(
                "DELETE FROM {} t USING unnest(%b::bytea[], %b::bytea[]) AS gone(k, s) "
                "WHERE t.k = gone.k AND t.s = gone.s",
                table,
            )
            connection.execute(
                statement, [list(each) for each in zip(*changes.removed, strict=True)]
            )
        if changes.put:
            self._put(connection, name, changes)

    def _put(self, connection: Any, name: str, changes: StateChanges) -> None:
        check_keys(changes)
        names = [*OWN, *(each for each, _ in columns_for(changes.readable.schema))]
        stage, table = identifier((f"stage_{name}"[:LONGEST_NAME],)), self.named(name)
        connection.execute(
            composed(
                "CREATE TEMP TABLE IF NOT EXISTS {} (LIKE {}) ON COMMIT DELETE ROWS", stage, table
            )
        )
        copied = composed("COPY {} ({}) FROM STDIN (FORMAT csv)", stage, joined(names))
        with connection.cursor() as cursor, cursor.copy(copied) as copy:
            copy.write(as_csv([*own_columns(changes), *shown_columns(changes.readable)]))
        connection.execute(
            composed(
                "INSERT INTO {} ({}) SELECT {} FROM {} ORDER BY k, s "
                "ON CONFLICT (k, s) DO UPDATE SET {}",
                table,
                joined(names),
                joined(names),
                stage,
                updates_of(names[2:]),
            )
        )
        connection.execute(composed("TRUNCATE {}", stage))


def table_name(tables: TableSet, state: str) -> str:
    """A name that people recognize, and that is no other state's."""
    whose = "\0".join((tables.lineage, tables.uid, tables.making, state))
    digest = hashlib.sha256(whose.encode()).hexdigest()[:10]
    words = re.sub(r"[^a-z0-9]+", "_", f"{tables.uid}_{state}".lower()).strip("_")
    return f"{words[:40]}_{digest}"


def delta_name(name: str) -> str:
    """The table of the deltas beside one with versions."""
    return f"{name}_delta"


def schema_of(state: StateColumns) -> pa.Schema:
    """The columns of a state's rows, as segments have them, without the operation."""
    schema = columns_of(info_of(state), type_named(state.key_type))
    return schema.remove(schema.get_field_index("op"))


def defined_as(columns: Sequence[tuple[str, str]]) -> Any:
    """Columns as a table is made with them, from their names and types."""
    sql = driver().sql
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(each), sql.SQL(kind)) for each, kind in columns
    )


def updates_of(names: Sequence[str]) -> Any:
    """What an upsert sets where the row is there."""
    sql = driver().sql
    return sql.SQL(", ").join(
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(each)) for each in names
    )


def check_keys(changes: StateChanges) -> None:
    """Refuse keys that no index takes."""
    longest = max(len(k) + len(s) for k, s, _ in changes.put)
    if longest > LONGEST_KEY:
        raise StateRefusedError(
            f"state {changes.state!r}: a key takes {longest} bytes, and an index of PostgreSQL "
            f"takes {LONGEST_KEY}. Use a shorter key, such as a hash of it, or another backend."
        )


def own_columns(changes: StateChanges) -> list[pa.Array]:
    """The places and cells of the rows that are put."""
    return [as_hex(list(column)) for column in zip(*changes.put, strict=True)]


def as_csv(columns: Sequence[pa.Array]) -> bytes:
    batch = pa.RecordBatch.from_arrays(columns, names=[str(n) for n in range(len(columns))])
    stream = io.BytesIO()
    pyarrow.csv.write_csv(batch, stream, pyarrow.csv.WriteOptions(include_header=False))
    return stream.getvalue()
