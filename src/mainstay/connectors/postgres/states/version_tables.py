"""The tables of states in versions: a base and its deltas, and what says which epoch counts.

A state has two tables, the base and the deltas beside it. For an operator there is a row with its
*pointer*, the epoch that others see, and with the epoch up to which deltas were folded; one for
each subtask with what it has brought; and one for each epoch that can be looked at.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.connectors.postgres.columns import composed, joined
from mainstay.connectors.postgres.states.readable import OWN, as_hex, columns_for, shown_columns
from mainstay.connectors.postgres.states.tables import (
    StateTables,
    as_csv,
    check_keys,
    defined_as,
    delta_name,
    own_columns,
    schema_of,
    updates_of,
)
from mainstay.state.backends.external.store import (
    GROUP,
    Applied,
    StateChanges,
    StateColumns,
    TableSet,
)
from mainstay.state.backends.external.versions import CLEARED, PUT, REMOVED
from mainstay.state.keygroups import KeyGroupRange

_OWN_TABLES = """
CREATE TABLE IF NOT EXISTS {pointer} (
    lineage text, uid text, making text, epoch bigint, folded bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (lineage, uid, making)
);
CREATE TABLE IF NOT EXISTS {progress} (
    lineage text, uid text, making text, first_group int, last_group int NOT NULL,
    attempt bigint NOT NULL, epoch bigint NOT NULL,
    PRIMARY KEY (lineage, uid, making, first_group)
);
CREATE TABLE IF NOT EXISTS {epochs} (
    lineage text, uid text, making text, epoch bigint,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lineage, uid, making, epoch)
);
CREATE TABLE IF NOT EXISTS {abandoned} (
    lineage text, uid text, making text, back_to bigint, last bigint NOT NULL,
    PRIMARY KEY (lineage, uid, making, back_to, last)
);
CREATE TABLE IF NOT EXISTS {viewed} (
    lineage text, uid text, state text, making text NOT NULL, name text NOT NULL,
    PRIMARY KEY (lineage, uid, state)
)
"""

_DELTA = """
CREATE TABLE {delta} (
    number bigint NOT NULL, epoch bigint NOT NULL, op smallint NOT NULL,
    k bytea NOT NULL, s bytea NOT NULL, v bytea, {columns}
);
CREATE INDEX ON {delta} (k, s, number);
CREATE INDEX ON {delta} (k, number) WHERE op = {cleared}
"""

_FOLD = """
WITH newest AS (
    SELECT DISTINCT ON (k, s) op, number, {columns} FROM {delta}
    WHERE op <> {cleared} AND epoch <= {epoch} AND k >= {first} AND k < {end}
    ORDER BY k, s, number DESC
)
INSERT INTO {base} ({columns}) SELECT {columns} FROM newest n
WHERE op = {put} AND NOT EXISTS (
    SELECT FROM {delta} c
    WHERE c.op = {cleared} AND c.k = n.k AND c.epoch <= {epoch} AND c.number > n.number
)
ON CONFLICT (k, s) DO UPDATE SET {updates}
"""
_CLEAR_BASE = """
DELETE FROM {base} b USING {delta} d
WHERE b.k = d.k AND (d.op = {cleared} OR d.s = b.s AND d.op = {removed})
AND d.epoch <= {epoch} AND d.k >= {first} AND d.k < {end}
"""
_CLEAR_DELTA = "DELETE FROM {delta} WHERE epoch <= {epoch} AND k >= {first} AND k < {end}"


class VersionTables(StateTables):
    """The tables in one schema. A connection is given, and a transaction is open."""

    def __init__(self, schema: str) -> None:
        super().__init__(schema)
        names = ("pointer", "progress", "epochs", "abandoned", "viewed")
        self.own = {name: self.named(f"mainstay_state_{name}") for name in names}

    def make_own(self, connection: Any) -> None:
        super().make_own(connection)
        connection.execute(composed(_OWN_TABLES, **self.own))

    def make(self, connection: Any, tables: TableSet, state: StateColumns) -> None:
        super().make(connection, tables, state)
        name = self.known(connection, tables)[state.name]
        columns = columns_for(schema_of(state))
        delta = self.named(delta_name(name))
        connection.execute(
            composed(_DELTA, delta=delta, columns=defined_as(columns), cleared=CLEARED)
        )
        # So that a reader who asks for a key does not read everything.
        keys = [each for each, kind in columns if _is_of_key(each) and kind != "jsonb"]
        if keys:
            for table in (self.named(name), delta):
                connection.execute(composed("CREATE INDEX ON {} ({})", table, joined(keys)))

    # ------------------------------------------------------------ deltas

    def append(self, connection: Any, name: str, segment: Applied, changes: StateChanges) -> None:
        """Append what a segment does to a state."""
        gone = [(CLEARED, k, b"") for k in changes.cleared]
        gone += [(REMOVED, k, s) for k, s in changes.removed]
        if gone:
            ops, k, s = (list(column) for column in zip(*gone, strict=True))
            self._copy(connection, name, segment, ["k", "s"], ops, [as_hex(k), as_hex(s)])
        if changes.put:
            check_keys(changes)
            names = [*OWN, *(each for each, _ in columns_for(changes.readable.schema))]
            columns = [*own_columns(changes), *shown_columns(changes.readable)]
            self._copy(connection, name, segment, names, [PUT] * len(changes.put), columns)

    def _copy(
        self,
        connection: Any,
        name: str,
        segment: Applied,
        names: list[str],
        ops: list[int],
        columns: list[pa.Array],
    ) -> None:
        names = ["number", "epoch", "op", *names]
        rows = len(ops)
        own = [pa.array([each] * rows) for each in (segment.number, segment.epoch)]
        copied = composed(
            "COPY {} ({}) FROM STDIN (FORMAT csv)", self.named(delta_name(name)), joined(names)
        )
        with connection.cursor() as cursor, cursor.copy(copied) as copy:
            copy.write(as_csv([*own, pa.array(ops), *columns]))

    def take_back(self, connection: Any, name: str, segment: Applied, run: KeyGroupRange) -> None:
        """Remove what a segment has appended for some key-groups."""
        statement = "DELETE FROM {delta} WHERE number = {number} AND k >= {first} AND k < {end}"
        delta = self.named(delta_name(name))
        connection.execute(composed(statement, delta=delta, number=segment.number, **bounds(run)))

    def fold(self, connection: Any, name: str, groups: KeyGroupRange, epoch: int) -> int:
        """Put deltas into the base; how many there were."""
        base, delta = self.named(name), self.named(delta_name(name))
        columns = self._columns(connection, name)
        updates = updates_of(columns[2:])
        parts = {"base": base, "delta": delta, "epoch": epoch, **bounds(groups)}
        parts |= {"cleared": CLEARED, "removed": REMOVED, "put": PUT}
        for statement in (_CLEAR_BASE, _FOLD, _CLEAR_DELTA):
            done = connection.execute(
                composed(statement, columns=joined(columns), updates=updates, **parts)
            )
        return int(done.rowcount)

    def clean(self, connection: Any, name: str) -> None:
        """Free the room of deltas that were folded. Somebody who is at it already does it."""
        statement = "VACUUM (SKIP_LOCKED, TRUNCATE false) {}"
        connection.execute(composed(statement, self.named(delta_name(name))))

    def _columns(self, connection: Any, name: str) -> list[str]:
        query = """
        SELECT attname FROM pg_attribute
        WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
        """
        place = self.named(name).as_string(connection)
        return [each for (each,) in connection.execute(composed(query, place)).fetchall()]


def bounds(groups: KeyGroupRange) -> dict[str, bytes]:
    """Where the rows of some key-groups lie: from the first ``k``, and before the end."""
    return {"first": GROUP.pack(groups.first), "end": GROUP.pack(groups.last + 1)}


def _is_of_key(column: str) -> bool:
    return column == "key" or column.startswith("key_")
