"""The port of the external backend to PostgreSQL: each call is one transaction.

A write begins with a look at the fence ``FOR SHARE``: who raises it waits for the write, and no
write of an older attempt begins after that. What a segment does and its row of the ledger are one
transaction, so a segment whose answer was lost is applied again, and then finds itself done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from mainstay.connectors.postgres.columns import composed
from mainstay.connectors.postgres.session import Server
from mainstay.connectors.postgres.states.fencing import (
    WAITS,
    end_holders,
    fence_beside,
    hold_fence,
    raise_fence,
)
from mainstay.connectors.postgres.states.sessions import shared_sessions
from mainstay.connectors.postgres.states.tables import StateTables, delta_name
from mainstay.errors import FencedError
from mainstay.state.backends.external.store import (
    GROUP,
    Applied,
    StateChanges,
    StateColumns,
    Stored,
    TableSet,
    patiently,
    still_missing,
    tables_gone,
)
from mainstay.state.backends.external.votes import FenceHeldError
from mainstay.state.keygroups import KeyGroupRange

READ_KEYS = 10_000
SCANNED_ROWS = 4096
ROW_BYTES = 150
"""What a row takes, about."""


class PostgresStore:
    """The state of one subtask in a schema of a database."""

    def __init__(self, server: Server, schema: str, name: str) -> None:
        self.name = name
        self._tables = self._tables_in(schema)
        self._sessions = shared_sessions(server)
        self._sessions.join()
        self._is_open = True
        self._known: dict[TableSet, dict[str, str]] = {}
        self._waits = 0

    def _tables_in(self, schema: str) -> StateTables:
        return StateTables(schema)

    # ------------------------------------------------------------ the fence

    def fence(
        self, tables: TableSet, attempt: int, states: Sequence[StateColumns], *, is_known: bool
    ) -> None:
        try:
            self._fence(tables, attempt, states, is_known)
        except FenceHeldError as error:
            self._waits += 1
            if self._waits < WAITS:
                raise
            with self._sessions.connection() as connection:
                told = end_holders(connection, tables)
            raise FenceHeldError(f"{error}: {told}") from error

    def _fence(
        self, tables: TableSet, attempt: int, states: Sequence[StateColumns], is_known: bool
    ) -> None:
        with self._sessions.transaction() as connection:
            self._tables.make_own(connection)
            self._raise_fence(connection, tables, attempt)
            known = self._tables.known(connection, tables)
            if is_known and not known:
                raise tables_gone(tables, self.name)
            for state in states:
                if state.name not in known:
                    self._tables.make(connection, tables, state)
            self._known[tables] = self._tables.known(connection, tables)

    def _raise_fence(self, connection: Any, tables: TableSet, attempt: int) -> None:
        if not raise_fence(connection, self._tables.fence, tables, attempt):
            raise self._fenced(tables, attempt)

    def check_fence(self, tables: TableSet, attempt: int) -> None:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)

    def _check_fence(self, connection: Any, tables: TableSet, attempt: int) -> None:
        """The first statement of every write. It holds the fence where it is until the commit."""
        if hold_fence(connection, self._tables.fence, tables) != attempt:
            raise self._fenced(tables, attempt)

    def _fenced(self, tables: TableSet, attempt: int) -> FencedError:
        return FencedError(
            f"{self.name} does not listen to attempt {attempt} of the {tables}: a newer one has "
            "taken over."
        )

    # ------------------------------------------------------------ reads

    def applied(self, tables: TableSet, groups: KeyGroupRange) -> list[Applied]:
        query = """
        SELECT segment, epoch, number, first_group, last_group FROM {}
        WHERE (lineage, uid, making) = ({}, {}, {}) AND first_group <= {} AND last_group >= {}
        """
        whose = (tables.lineage, tables.uid, tables.making, groups.last, groups.first)
        with self._sessions.connection() as connection:
            rows = connection.execute(composed(query, self._tables.ledger, *whose)).fetchall()
        return [
            Applied(segment, epoch, number, KeyGroupRange(first, last))
            for segment, epoch, number, first, last in rows
        ]

    def folded(self, tables: TableSet) -> int | None:
        return None

    def abandoned(self, tables: TableSet) -> Sequence[tuple[int, int]]:
        return ()

    def rows(self, tables: TableSet) -> int:
        query = """
        SELECT coalesce(sum(pg_table_size(format('%I.%I', {}::text, name)::regclass)), 0) FROM {}
        WHERE (lineage, uid, making) = ({}, {}, {})
        """
        whose = (tables.lineage, tables.uid, tables.making)
        with self._sessions.connection() as connection:
            asked = composed(query, self._tables.schema, self._tables.catalog, *whose)
            ((size_bytes,),) = connection.execute(asked).fetchall()
        return int(size_bytes) // ROW_BYTES

    def read(
        self, tables: TableSet, attempt: int, state: str, keys: Sequence[bytes]
    ) -> Mapping[bytes, list[tuple[bytes, bytes]]]:
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for start in range(0, len(keys), READ_KEYS):
            some = list(keys[start : start + READ_KEYS])
            for k, s, v in self._found(tables, attempt, state, "k = ANY(%b::bytea[])", [some]):
                found.setdefault(k, []).append((s, v))
        for rows in found.values():
            rows.sort()
        return found

    def read_entry(
        self, tables: TableSet, attempt: int, state: str, k: bytes, s: bytes
    ) -> bytes | None:
        rows = self._found(tables, attempt, state, "k = %b AND s = %b", [k, s])
        return rows[0][2] if rows else None

    def _found(
        self, tables: TableSet, attempt: int, state: str, where: str, given: Sequence[Any]
    ) -> list[Stored]:
        """The rows at some places, as an attempt sees them that is still the admitted one."""
        beside = fence_beside(self._tables.fence, tables, "NULL, NULL")
        with self._sessions.connection() as connection:
            table = self._table(connection, tables, state)
            query = composed(f"SELECT k, s, v FROM {{}} WHERE {where} {{}}", table, beside)
            rows = connection.execute(query, given, binary=True).fetchall()
        return self._unfenced(tables, attempt, rows)

    def _unfenced(
        self, tables: TableSet, attempt: int, rows: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Rows without the one of the fence, which says that they may be seen."""
        admitted = [int.from_bytes(row[-1], "big") for row in rows if row[-2] is None]
        if admitted != [attempt]:
            raise self._fenced(tables, attempt)
        return [row for row in rows if row[-2] is not None]

    def scan(
        self, tables: TableSet, state: str, groups: KeyGroupRange, up_to: int | None = None
    ) -> Iterator[Stored]:
        at, end = (GROUP.pack(groups.first), b""), GROUP.pack(groups.last + 1)
        page = partial(self._page, tables, state, end)
        while rows := patiently(partial(page, at)):
            yield from rows
            at = rows[-1][:2]

    def _page(
        self, tables: TableSet, state: str, end: bytes, after: tuple[bytes, bytes]
    ) -> list[Stored]:
        with self._sessions.connection() as connection:
            table = self._table(connection, tables, state)
            query = composed(
                "SELECT k, s, v FROM {} WHERE (k, s) > (%b, %b) AND k < %b ORDER BY k, s LIMIT {}",
                table,
                SCANNED_ROWS,
            )
            found = connection.execute(query, [*after, end], binary=True).fetchall()
        return found  # type: ignore[no-any-return]

    def _table(self, connection: Any, tables: TableSet, state: str) -> Any:
        if tables not in self._known:
            self._known[tables] = self._tables.known(connection, tables)
        if state not in self._known[tables]:
            raise tables_gone(tables, self.name)
        return self._tables.named(self._known[tables][state])

    # ------------------------------------------------------------ writes

    def apply(
        self,
        tables: TableSet,
        attempt: int,
        segment: Applied,
        changes: Sequence[StateChanges],
        forget_up_to: int,
    ) -> None:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            self._line_up(connection, tables, segment.segment)
            covered = self._covered(connection, tables, segment)
            runs, missing = still_missing(changes, segment, covered)
            self._take_in(connection, tables, segment, missing)
            self._note(connection, tables, segment, runs)
            self._forget(connection, tables, segment.groups, forget_up_to)

    def _line_up(self, connection: Any, tables: TableSet, what: str) -> None:
        """Something whose answer was lost may still be under way here."""
        whose = "/".join((tables.lineage, tables.uid, tables.making, what))
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [whose])

    def _covered(self, connection: Any, tables: TableSet, segment: Applied) -> list[Applied]:
        query = """
        SELECT first_group, last_group FROM {}
        WHERE (lineage, uid, making, segment) = ({}, {}, {}, {})
        """
        whose = (tables.lineage, tables.uid, tables.making, segment.segment)
        rows = connection.execute(composed(query, self._tables.ledger, *whose)).fetchall()
        name, epoch, number = segment.segment, segment.epoch, segment.number
        return [Applied(name, epoch, number, KeyGroupRange(*row)) for row in rows]

    def _take_in(
        self, connection: Any, tables: TableSet, segment: Applied, changes: Sequence[StateChanges]
    ) -> None:
        self._write(connection, tables, changes)

    def _write(self, connection: Any, tables: TableSet, changes: Sequence[StateChanges]) -> None:
        for each in changes:
            self._table(connection, tables, each.state)
            self._tables.write(connection, self._known[tables][each.state], each)

    def _note(
        self, connection: Any, tables: TableSet, segment: Applied, runs: Iterable[KeyGroupRange]
    ) -> None:
        statement = "INSERT INTO {} VALUES ({}, {}, {}, {}, {}, {}, {}, {})"
        whose = (tables.lineage, tables.uid, tables.making, segment.segment)
        for run in runs:
            what = (run.first, run.last, segment.epoch, segment.number)
            connection.execute(composed(statement, self._tables.ledger, *whose, *what))

    def _forget(self, connection: Any, tables: TableSet, groups: KeyGroupRange, up_to: int) -> None:
        if up_to < 0:
            return
        statement = """
        DELETE FROM {} WHERE (lineage, uid, making) = ({}, {}, {}) AND epoch <= {}
        AND first_group >= {} AND last_group <= {}
        """
        whose = (tables.lineage, tables.uid, tables.making, up_to, groups.first, groups.last)
        connection.execute(composed(statement, self._tables.ledger, *whose))

    def load(self, tables: TableSet, attempt: int, changes: Sequence[StateChanges]) -> None:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            self._write(connection, tables, changes)

    def sweep(self, tables: TableSet, attempt: int, keep: Iterable[str]) -> None:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            ours = "WHERE lineage = {} AND uid = {} AND making <> ALL({})"
            whose = (tables.lineage, tables.uid, list(keep))
            query = composed(f"SELECT name FROM {{}} {ours}", self._tables.catalog, *whose)
            for (name,) in connection.execute(query).fetchall():
                for each in (name, delta_name(name)):
                    gone = composed("DROP TABLE IF EXISTS {} CASCADE", self._tables.named(each))
                    connection.execute(gone)
            for own in (self._tables.catalog, self._tables.ledger):
                connection.execute(composed(f"DELETE FROM {{}} {ours}", own, *whose))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._sessions.leave()
