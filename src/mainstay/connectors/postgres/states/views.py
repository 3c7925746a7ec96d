"""What others see of states in versions: a view for each, at the pointer, and a function for any
epoch that can be looked at.

Both have the columns for people alone. A map has a row for each entry, a list one row with all its
elements, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstay.connectors.postgres.columns import composed, joined
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.states.readable import columns_for
from mainstay.connectors.postgres.states.sessions import StateRefusedError
from mainstay.connectors.postgres.states.tables import delta_name, schema_of, table_name
from mainstay.connectors.postgres.states.version_tables import VersionTables
from mainstay.state.backends.external.store import StateColumns, TableSet
from mainstay.state.backends.external.versions import CLEARED, PUT

VIEWS = "mainstay_state_views"

# No DISTINCT: a condition on the key reaches both tables, and is looked up there.
_ROWS = """
SELECT {columns} FROM {base} b WHERE NOT EXISTS (
    SELECT FROM {delta} n
    WHERE n.k = b.k AND n.epoch <= {at} AND (n.op = {cleared} OR n.s = b.s)
)
UNION ALL
SELECT {columns} FROM {delta} d WHERE d.op = {put} AND d.epoch <= {at} AND NOT EXISTS (
    SELECT FROM {delta} n
    WHERE n.k = d.k AND n.epoch <= {at} AND n.number > d.number
    AND (n.op = {cleared} OR n.s = d.s)
)
"""
_LISTS = """
SELECT {keys}, jsonb_agg(element.value ORDER BY part.s, element.place) AS value
FROM ({rows}) part, jsonb_array_elements(part.value) WITH ORDINALITY AS element (value, place)
GROUP BY part.k, {keys}
"""
_POINTER = """
(SELECT epoch FROM {pointer} WHERE (lineage, uid, making) = ({lineage}, {uid}, {making}))
"""
_FUNCTION = """
CREATE OR REPLACE FUNCTION {function} (wanted bigint) RETURNS SETOF {view}
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $mainstay$
BEGIN
    IF NOT EXISTS (
        SELECT FROM {epochs} e
        WHERE (e.lineage, e.uid, e.making, e.epoch) = ({lineage}, {uid}, {making}, wanted)
    ) THEN
        RAISE EXCEPTION 'epoch % cannot be looked at. There are: %.', wanted, coalesce((
            SELECT string_agg(e.epoch::text, ', ' ORDER BY e.epoch) FROM {epochs} e
            WHERE (e.lineage, e.uid, e.making) = ({lineage}, {uid}, {making})
        ), 'none');
    END IF;
    RETURN QUERY {rows};
END $mainstay$
"""
_VIEWS = """
CREATE VIEW {views} AS
SELECT v.lineage, v.uid AS operator, v.state, v.name AS view, p.epoch, e.committed_at, ARRAY(
    SELECT o.epoch FROM {epochs} o
    WHERE (o.lineage, o.uid, o.making) = (v.lineage, v.uid, v.making) ORDER BY o.epoch
) AS viewable
FROM {viewed} v JOIN {pointer} p USING (lineage, uid, making)
LEFT JOIN {epochs} e USING (lineage, uid, making, epoch)
"""


class StateViews:
    """The views in one schema. A connection is given, and a transaction is open."""

    def __init__(self, tables: VersionTables) -> None:
        self._tables = tables

    def make_own(self, connection: Any) -> None:
        """Make the view that says which views there are."""
        if not self._is_there(connection, VIEWS):
            views = self._tables.named(VIEWS)
            connection.execute(composed(_VIEWS, views=views, **self._tables.own))

    def making(self, connection: Any, tables: TableSet) -> str | None:
        """The tables that are seen of an operator; None if none are."""
        query = "SELECT min(making) FROM {} WHERE (lineage, uid) = ({}, {})"
        whose = (tables.lineage, tables.uid)
        found = connection.execute(composed(query, self._tables.own["viewed"], *whose)).fetchone()
        return None if found is None else found[0]

    def show(self, connection: Any, tables: TableSet, states: Sequence[StateColumns]) -> None:
        """Have others see these tables, and no others of the operator."""
        viewed, whose = self._tables.own["viewed"], (tables.lineage, tables.uid)
        query = "SELECT state, making, name FROM {} WHERE (lineage, uid) = ({}, {})"
        found = connection.execute(composed(query, viewed, *whose)).fetchall()
        seen = {state: (making, name) for state, making, name in found}
        for state in states:
            if seen.pop(state.name, ("", ""))[0] != tables.making:
                self._show(connection, tables, state)
        for state_name, (making, name) in seen.items():
            if making != tables.making:
                self._drop(connection, name)
                statement = "DELETE FROM {} WHERE (lineage, uid, state) = ({}, {}, {})"
                connection.execute(composed(statement, viewed, *whose, state_name))

    def _show(self, connection: Any, tables: TableSet, state: StateColumns) -> None:
        name = view_name(tables, state.name)
        if self._is_there(connection, name) and not self._fits(connection, name, state):
            self._drop(connection, name)
        parts = {
            **self._tables.own,
            "lineage": tables.lineage,
            "uid": tables.uid,
            "making": tables.making,
        }
        named = self._tables.named
        stored = self._tables.known(connection, tables)[state.name]
        at = composed(_POINTER, **parts)
        rows = self._rows(stored, state, at)
        connection.execute(composed("CREATE OR REPLACE VIEW {} AS {}", named(name), rows))
        self._make_function(connection, name, self._rows(stored, state, _wanted()), parts)
        statement = """
        INSERT INTO {} (lineage, uid, state, making, name) VALUES ({}, {}, {}, {}, {})
        ON CONFLICT (lineage, uid, state) DO UPDATE SET making = excluded.making
        """
        whose = (tables.lineage, tables.uid, state.name, tables.making, name)
        connection.execute(composed(statement, self._tables.own["viewed"], *whose))

    def _make_function(self, connection: Any, name: str, rows: Any, parts: dict[str, Any]) -> None:
        function, view = self._tables.named(at_name(name)), self._tables.named(name)
        query = "SELECT to_regproc({}) IS NULL"
        place = function.as_string(connection)
        is_new = connection.execute(composed(query, place)).fetchone()[0]
        made = composed(_FUNCTION, function=function, view=view, rows=rows, **parts)
        connection.execute(made)
        if is_new:
            revoked = "REVOKE ALL ON FUNCTION {} (bigint) FROM PUBLIC"
            connection.execute(composed(revoked, function))

    def _rows(self, stored: str, state: StateColumns, at: Any) -> Any:
        """The rows of an epoch."""
        names = [name for name, _ in columns_for(schema_of(state))]
        is_list = state.kind == "list"
        parts = {
            "base": self._tables.named(stored),
            "delta": self._tables.named(delta_name(stored)),
            "columns": joined(["k", "s", *names] if is_list else names),
            "at": at,
            "cleared": CLEARED,
            "put": PUT,
        }
        rows = composed(_ROWS, **parts)
        if not is_list:
            return rows
        sql = driver().sql
        keys = sql.SQL(", ").join(sql.Identifier("part", name) for name in names[:-1])
        return composed(_LISTS, keys=keys, rows=rows)

    def _fits(self, connection: Any, name: str, state: StateColumns) -> bool:
        """Whether a view that is there has the columns that are wanted now."""
        query = """
        SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
        """
        place = self._tables.named(name).as_string(connection)
        found = connection.execute(composed(query, place)).fetchall()
        wanted = [(each, _full_type(kind)) for each, kind in columns_for(schema_of(state))]
        return [tuple(row) for row in found] == wanted

    def _drop(self, connection: Any, name: str) -> None:
        view, function = self._tables.named(name), self._tables.named(at_name(name))
        try:
            with connection.transaction():
                connection.execute(composed("DROP FUNCTION IF EXISTS {}", function))
                connection.execute(composed("DROP VIEW IF EXISTS {}", view))
        except driver().errors.DependentObjectsStillExist as error:
            raise StateRefusedError(
                f"the view {name} has other columns from now on, and others were built on it: "
                f"{error}. Drop those, and start the job again."
            ) from error

    def _is_there(self, connection: Any, name: str) -> bool:
        place = self._tables.named(name).as_string(connection)
        found = connection.execute(composed("SELECT to_regclass({}) IS NOT NULL", place))
        return bool(found.fetchone()[0])


def view_name(tables: TableSet, state: str) -> str:
    """What a state's view is called, whichever tables it shows."""
    return table_name(TableSet(tables.lineage, tables.uid, "view"), state)


def at_name(name: str) -> str:
    return f"{name}_at"


def _wanted() -> Any:
    return driver().sql.SQL("wanted")


def _full_type(kind: str) -> str:
    """A type as the server spells it."""
    long = {
        "timestamptz": "timestamp with time zone",
        "timestamp": "timestamp without time zone",
    }
    return long.get(kind, kind)
