"""The port of the external backend to PostgreSQL with versions: each call is one transaction.

The row of an operator's pointer is locked by those who move it, set it back or fold behind it, so
that each sees what the other has done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from mainstay.connectors.postgres.columns import composed
from mainstay.connectors.postgres.session import Server
from mainstay.connectors.postgres.states.fencing import fence_beside
from mainstay.connectors.postgres.states.store import READ_KEYS, SCANNED_ROWS
from mainstay.connectors.postgres.states.tables import delta_name
from mainstay.connectors.postgres.states.version_tables import VersionTables
from mainstay.connectors.postgres.states.views import StateViews
from mainstay.connectors.postgres.states.voting import VotingPostgresStore
from mainstay.state.backends.external.store import (
    GROUP,
    Applied,
    StateChanges,
    StateColumns,
    Stored,
    TableSet,
    patiently,
    uncovered,
)
from mainstay.state.backends.external.versions import (
    BASE,
    CLEARED,
    PUT,
    Version,
    laid_over,
    once_each,
)
from mainstay.state.keygroups import KeyGroupRange

_READ = """
SELECT {base_number}::bigint, {put}::smallint, k, s, v FROM {base} WHERE {where}
UNION ALL
SELECT number, op, k, s, v FROM {delta} WHERE {where} {beside}
"""
_NOT_A_ROW = "0, 0::smallint, NULL, NULL"
_CLEARED = """
(SELECT max(c.number) FROM {delta} c WHERE c.op = {cleared} AND c.k = t.k AND c.number <= {up_to})
"""
_PAGE = """
(SELECT {base_number}::bigint, {put}::smallint, k, s, v, {last_clear} FROM {base} t
WHERE (k, s) > (%(k)b, %(s)b) AND k < %(end)b ORDER BY k, s LIMIT {most})
UNION ALL
(SELECT DISTINCT ON (k, s) number, op, k, s, v, {last_clear} FROM {delta} t
WHERE op <> {cleared} AND number <= {up_to} AND (k, s) > (%(k)b, %(s)b) AND k < %(end)b
ORDER BY k, s, number DESC LIMIT {most})
"""
LAST = (1 << 63) - 1
"""A number that no segment has."""
CLEANED_ROWS = 20_000
"""Folded deltas after which their room is freed."""
WHOSE = "(lineage, uid, making) = ({lineage}, {uid}, {making})"


class VersionedPostgresStore(VotingPostgresStore):
    """The state of one subtask in a schema of a database, in versions."""

    def __init__(self, server: Server, schema: str, name: str) -> None:
        super().__init__(server, schema, name)
        self._views = StateViews(self._versions)
        self._states: dict[TableSet, Sequence[StateColumns]] = {}
        self._dead = 0
        """About how many deltas were folded since the last time they were cleaned up."""

    def _tables_in(self, schema: str) -> VersionTables:
        self._versions = VersionTables(schema)
        return self._versions

    def _run(self, connection: Any, tables: TableSet, statement: str, **parts: Any) -> Any:
        """A statement about an operator's tables."""
        whose = {"lineage": tables.lineage, "uid": tables.uid, "making": tables.making}
        text = statement.replace("WHOSE", WHOSE)
        return connection.execute(composed(text, **self._versions.own, **whose, **parts))

    def fence(
        self, tables: TableSet, attempt: int, states: Sequence[StateColumns], *, is_known: bool
    ) -> None:
        self._states[tables] = states
        super().fence(tables, attempt, states, is_known=is_known)

    def _raise_fence(self, connection: Any, tables: TableSet, attempt: int) -> None:
        super()._raise_fence(connection, tables, attempt)
        self._views.make_own(connection)
        statement = """
        INSERT INTO {pointer} (lineage, uid, making) VALUES ({lineage}, {uid}, {making})
        ON CONFLICT DO NOTHING
        """
        self._run(connection, tables, statement)

    def folded(self, tables: TableSet) -> int:
        with self._sessions.connection() as connection:
            row = self._run(connection, tables, "SELECT folded FROM {pointer} WHERE WHOSE")
            found = row.fetchone()
        return 0 if found is None else int(found[0])

    def abandoned(self, tables: TableSet) -> Sequence[tuple[int, int]]:
        query = "SELECT back_to, last FROM {abandoned} WHERE WHOSE"
        with self._sessions.connection() as connection:
            found: list[tuple[int, int]] = self._run(connection, tables, query).fetchall()
        return found

    # ------------------------------------------------------------ reads

    def read(
        self, tables: TableSet, attempt: int, state: str, keys: Sequence[bytes]
    ) -> Mapping[bytes, list[tuple[bytes, bytes]]]:
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for start in range(0, len(keys), READ_KEYS):
            some = list(keys[start : start + READ_KEYS])
            rows = self._laid_over(tables, attempt, state, "k = ANY(%(k)b::bytea[])", {"k": some})
            found.update({k: sorted(each.items()) for k, each in rows.items()})
        return found

    def read_entry(
        self, tables: TableSet, attempt: int, state: str, k: bytes, s: bytes
    ) -> bytes | None:
        # A clear lies at no entry, or at that of an empty key.
        where = "k = %(k)b AND s IN (%(s)b, '')"
        return self._laid_over(tables, attempt, state, where, {"k": k, "s": s}).get(k, {}).get(s)

    def _laid_over(
        self, tables: TableSet, attempt: int, state: str, where: str, given: Mapping[str, Any]
    ) -> dict[bytes, dict[bytes, bytes]]:
        """What comes of the base and all deltas at some places: one statement sees both."""
        beside = fence_beside(self._tables.fence, tables, _NOT_A_ROW)
        with self._sessions.connection() as connection:
            both = self._both(connection, tables, state)
            query = composed(_READ.replace("{where}", where), beside=beside, **both)
            rows = connection.execute(query, given, binary=True).fetchall()
        return laid_over(Version(*row) for row in self._unfenced(tables, attempt, rows))

    def _both(self, connection: Any, tables: TableSet, state: str) -> dict[str, Any]:
        base = self._table(connection, tables, state)
        delta = self._versions.named(delta_name(self._known[tables][state]))
        return {"base": base, "delta": delta, "base_number": BASE, "put": PUT}

    def scan(
        self, tables: TableSet, state: str, groups: KeyGroupRange, up_to: int | None = None
    ) -> Iterator[Stored]:
        end = GROUP.pack(groups.last + 1)
        last = LAST if up_to is None else up_to
        at: tuple[bytes, bytes] | None = (GROUP.pack(groups.first), b"")
        while at is not None:
            rows, at = patiently(partial(self._part, tables, state, end, at, last))
            yield from rows

    def _part(
        self, tables: TableSet, state: str, end: bytes, after: tuple[bytes, bytes], up_to: int
    ) -> tuple[list[Stored], tuple[bytes, bytes] | None]:
        """Some rows in order, and the place after which there may be more; None at the end."""
        with self._sessions.connection() as connection:
            parts = self._both(connection, tables, state)
            parts |= {"cleared": CLEARED, "up_to": up_to, "most": SCANNED_ROWS}
            last_clear = composed(_CLEARED, **parts)
            query = composed(_PAGE, last_clear=last_clear, **parts)
            given = {"k": after[0], "s": after[1], "end": end}
            found = connection.execute(query, given, binary=True).fetchall()
        halves = [[r for r in found if r[0] == BASE], [r for r in found if r[0] != BASE]]
        ends = [max(row[2:4] for row in half) for half in halves if len(half) == SCANNED_ROWS]
        edge = min(ends, default=None)
        newest: dict[tuple[bytes, bytes], Any] = {}
        for row in sorted(found, key=lambda row: row[0]):
            newest[row[2:4]] = row
        rows = [
            (k, s, v)
            for (k, s), (number, op, _, _, v, cleared) in sorted(newest.items())
            if (edge is None or (k, s) <= edge) and op == PUT and number >= (cleared or BASE)
        ]
        return rows, edge

    # ------------------------------------------------------------ writes

    def _take_in(
        self, connection: Any, tables: TableSet, segment: Applied, changes: Sequence[StateChanges]
    ) -> None:
        for each in once_each(changes):
            self._table(connection, tables, each.state)
            self._versions.append(connection, self._known[tables][each.state], segment, each)

    def complete(
        self,
        tables: TableSet,
        attempt: int,
        groups: KeyGroupRange,
        max_parallelism: int,
        epoch: int,
    ) -> int:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            pointer = self._pointer(connection, tables)
            self._run(
                connection,
                tables,
                "DELETE FROM {progress} WHERE WHOSE AND attempt <> {attempt}",
                attempt=attempt,
            )
            self._run(
                connection,
                tables,
                """
                INSERT INTO {progress} VALUES
                ({lineage}, {uid}, {making}, {first}, {last}, {attempt}, {epoch})
                ON CONFLICT (lineage, uid, making, first_group) DO UPDATE
                SET epoch = excluded.epoch
                """,
                first=groups.first,
                last=groups.last,
                attempt=attempt,
                epoch=epoch,
            )
            reached = self._reached(connection, tables, max_parallelism)
            if reached > pointer:
                self._move(connection, tables, reached)
            return max(reached, pointer)

    def _pointer(self, connection: Any, tables: TableSet) -> int:
        """The epoch that others see, which stays until this transaction ends."""
        query = "SELECT epoch FROM {pointer} WHERE WHOSE FOR UPDATE"
        found = self._run(connection, tables, query).fetchone()
        return (found[0] if found is not None else None) or 0

    def _reached(self, connection: Any, tables: TableSet, max_parallelism: int) -> int:
        """The epoch that all subtasks have brought; 0 if some have not said anything yet."""
        query = """
        SELECT min(epoch), sum(last_group - first_group + 1) FROM {progress} WHERE WHOSE
        """
        epoch, groups = self._run(connection, tables, query).fetchone()
        return epoch if groups == max_parallelism else 0

    def _move(self, connection: Any, tables: TableSet, epoch: int) -> None:
        for statement in (
            "UPDATE {pointer} SET epoch = {epoch} WHERE WHOSE",
            "INSERT INTO {epochs} VALUES ({lineage}, {uid}, {making}, {epoch})",
        ):
            self._run(connection, tables, statement, epoch=epoch)
        self._views.show(connection, tables, self._states[tables])

    def fold(self, tables: TableSet, attempt: int, groups: KeyGroupRange, epoch: int) -> None:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            self._line_up(connection, tables, f"fold/{groups.first}")
            for name in self._known[tables].values():
                self._dead += self._versions.fold(connection, name, groups, epoch)
            for statement in (
                "UPDATE {pointer} SET folded = greatest(folded, {epoch}) WHERE WHOSE",
                "DELETE FROM {epochs} WHERE WHOSE AND epoch < {epoch}",
            ):
                self._run(connection, tables, statement, epoch=epoch)
        self._clean(tables)

    def _clean(self, tables: TableSet) -> None:
        """Have the server clean the deltas up: autovacuum comes by once a minute at most."""
        if self._dead < CLEANED_ROWS:
            return
        self._dead = 0
        with self._sessions.connection() as connection:
            for name in self._known[tables].values():
                self._versions.clean(connection, name)

    def discard(
        self,
        tables: TableSet,
        attempt: int,
        groups: KeyGroupRange,
        segments: Sequence[Applied],
        epoch: int,
    ) -> None:
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            self._pointer(connection, tables)
            for statement in (
                """
                INSERT INTO {abandoned} SELECT lineage, uid, making, {epoch}, epoch FROM {pointer}
                WHERE WHOSE AND epoch > {epoch} ON CONFLICT DO NOTHING
                """,
                "UPDATE {pointer} SET epoch = {epoch} WHERE WHOSE AND epoch > {epoch}",
                "DELETE FROM {epochs} WHERE WHOSE AND epoch > {epoch}",
            ):
                self._run(connection, tables, statement, epoch=epoch)
            for each in segments:
                self._take_back(connection, tables, groups, each)

    def _take_back(
        self, connection: Any, tables: TableSet, groups: KeyGroupRange, segment: Applied
    ) -> None:
        """Take a segment back within some key-groups. Those of others stay in the ledger, whose
        row another subtask may have divided meanwhile. Subtasks number their segments by
        themselves: in other key-groups than its own the number is that of another segment."""
        run = KeyGroupRange(
            max(groups.first, segment.groups.first), min(groups.last, segment.groups.last)
        )
        for name in self._known[tables].values():
            self._versions.take_back(connection, name, segment, run)
        statement = """
        DELETE FROM {ledger} WHERE WHOSE AND segment = {segment} AND number = {number}
        AND first_group <= {last} AND last_group >= {first} RETURNING first_group, last_group
        """
        parts = {"ledger": self._tables.ledger, "segment": segment.segment}
        parts |= {"number": segment.number, "first": groups.first, "last": groups.last}
        found = self._run(connection, tables, statement, **parts).fetchall()
        within = [Applied(segment.segment, segment.epoch, segment.number, groups)]
        for run in found:
            self._note(connection, tables, segment, uncovered(KeyGroupRange(*run), within))

    def sweep(self, tables: TableSet, attempt: int, keep: Iterable[str]) -> None:
        """What is seen stays, until the pointer of other tables is set."""
        with self._sessions.connection() as connection:
            seen = self._views.making(connection, tables)
        kept = [*keep, *([] if seen is None else [seen])]
        super().sweep(tables, attempt, kept)
        with self._sessions.transaction() as connection:
            self._check_fence(connection, tables, attempt)
            for name in ("pointer", "progress", "epochs", "abandoned"):
                statement = (
                    f"DELETE FROM {{{name}}} WHERE lineage = {{lineage}} AND uid = {{uid}} "
                    "AND making <> ALL({kept})"
                )
                self._run(connection, tables, statement, kept=kept)
