"""What an independent client sees of a job's state in PostgreSQL, at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mainstay.connectors.postgres.states.tables import delta_name
from mainstay.connectors.postgres.states.voting import prefix_of, vote_of
from mainstay.state.backends.external.store import Applied, TableSet
from mainstay.state.backends.external.votes import Vote
from mainstay.state.keygroups import KeyGroupRange
from tests.ha.external_job import UID, Rows, schema_of

OWN = ("fence", "ledger", "tables")
OWN_OF_VERSIONS = ("pointer", "progress", "epochs", "abandoned", "viewed")


@dataclass(frozen=True)
class Seen:
    """``rows`` are those of the tables under None, or with versions those of some epochs."""

    is_versioned: bool
    fence: int
    ledger: tuple[Applied, ...]
    rows: dict[int | None, Rows]
    makings: frozenset[str]
    strange_tables: frozenset[str]
    votes: tuple[Vote, ...] = ()
    pointer: int | None = None
    viewable: tuple[int, ...] = ()
    progress: dict[int, int] = field(default_factory=dict)
    """By attempt, the newest epoch that one of its subtasks has noted."""


class Client:
    """Looks at the state of one job. Each look is within a transaction that sees one moment."""

    def __init__(self, dsn: str, protocol: str) -> None:
        self.dsn = dsn
        self._is_versioned = protocol == "versioned"
        self._schema = f'"{schema_of(dsn)}"'

    def look(self) -> Seen | None:
        """What is there; None before there is anything."""
        import psycopg

        with psycopg.connect(self.dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            return self.look_by(connection)

    def look_by(self, connection: Any) -> Seen | None:
        place = f"{self._schema}.mainstay_state_fence"
        if connection.execute("SELECT to_regclass(%s)", [place]).fetchone() == (None,):
            return None
        query = f"SELECT lineage, attempt FROM {place} WHERE uid = %s"
        found = connection.execute(query, [UID]).fetchone()
        if found is None:
            return None
        lineage, attempt = found
        pointer, viewable = self._pointer(connection)
        return Seen(
            self._is_versioned,
            attempt,
            self._ledger(connection),
            self._all_rows(connection, pointer, viewable),
            self._makings(connection),
            self._strange_tables(connection),
            self._votes(connection, TableSet(lineage, UID)),
            pointer,
            viewable,
            self._progress(connection),
        )

    def _ask(self, connection: Any, columns: str, table: str, more: str = "") -> list[Any]:
        query = f"SELECT {columns} FROM {self._schema}.{table} {more}"
        return list(connection.execute(query).fetchall())

    def _ledger(self, connection: Any) -> tuple[Applied, ...]:
        columns = "segment, epoch, number, first_group, last_group"
        rows = self._ask(connection, columns, "mainstay_state_ledger", f"WHERE uid = '{UID}'")
        return tuple(Applied(*row[:3], KeyGroupRange(*row[3:])) for row in rows)

    def _votes(self, connection: Any, tables: TableSet) -> tuple[Vote, ...]:
        query = "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s)"
        names = connection.execute(query, [prefix_of(tables)]).fetchall()
        found = [vote_of(name, tables) for (name,) in names]
        assert None not in found, f"{names} are not all votes"
        return tuple(vote for vote in found if vote is not None)

    # ------------------------------------------------------------ tables

    def _makings(self, connection: Any) -> frozenset[str]:
        return frozenset(m for (m,) in self._ask(connection, "making", "mainstay_state_tables"))

    def _strange_tables(self, connection: Any) -> frozenset[str]:
        """The tables of the schema that nothing speaks of."""
        own = (*OWN, *(OWN_OF_VERSIONS if self._is_versioned else ()))
        known = {f"mainstay_state_{name}" for name in own}
        for (name,) in self._ask(connection, "name", "mainstay_state_tables"):
            known |= {name, *([delta_name(name)] if self._is_versioned else [])}
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        found = connection.execute(query, [self._schema.strip('"')]).fetchall()
        return frozenset(name for (name,) in found) - known

    def _all_rows(
        self, connection: Any, pointer: int | None, viewable: tuple[int, ...]
    ) -> dict[int | None, Rows]:
        if not self._is_versioned:
            names = self._ask(connection, "state, name", "mainstay_state_tables")
            return {None: self._rows(connection, {s: f'"{name}"' for s, name in names})}
        if not pointer:
            return {}
        views = dict(self._ask(connection, "state, view", "mainstay_state_views"))
        shown = {pointer: self._rows(connection, {s: f'"{view}"' for s, view in views.items()})}
        for epoch in viewable[:1]:
            functions = {s: f'"{view}_at"({epoch})' for s, view in views.items()}
            shown.setdefault(epoch, self._rows(connection, functions))
        return dict(shown)

    def _rows(self, connection: Any, places: dict[str, str]) -> Rows:
        rows: Rows = {"seen": {}, "count": {}, "newest": {}}
        for key, ids in self._ask(connection, "key, value", places["seen"]):
            rows["seen"].setdefault(key, []).extend(ids)
        rows["seen"] = {key: sorted(ids) for key, ids in rows["seen"].items()}
        rows["count"] = dict(self._ask(connection, "key, value", places["count"]))
        for key, part, id in self._ask(connection, "key, map_key, value", places["newest"]):
            rows["newest"].setdefault(key, {})[part] = id
        return rows

    # ------------------------------------------------------------ versions

    def _pointer(self, connection: Any) -> tuple[int | None, tuple[int, ...]]:
        if not self._is_versioned:
            return None, ()
        # Of several makings, the one that is seen.
        seen = f"JOIN {self._schema}.mainstay_state_viewed v USING (lineage, uid, making)"
        pointers = self._ask(connection, "DISTINCT p.epoch", "mainstay_state_pointer p", seen)
        epochs = self._ask(connection, "DISTINCT e.epoch", "mainstay_state_epochs e", seen)
        assert len(pointers) <= 1, f"there are several pointers: {pointers}"
        return (pointers[0][0] if pointers else None), tuple(sorted(e for (e,) in epochs))

    def _progress(self, connection: Any) -> dict[int, int]:
        if not self._is_versioned:
            return {}
        columns = "attempt, max(epoch)"
        return dict(self._ask(connection, columns, "mainstay_state_progress", "GROUP BY attempt"))
