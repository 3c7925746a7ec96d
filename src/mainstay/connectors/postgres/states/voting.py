"""Votes in PostgreSQL: prepared transactions, whose names say whose they are.

A vote looks at the fence ``FOR SHARE`` like any write, and holds it until it is settled. So who
raises the fence has to settle the votes of older attempts, and none can be prepared after that.
The transaction also holds an advisory lock of its name: a call that got lost is waited for before a
vote is known to be gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mainstay.connectors.bases.transactions import owner_of
from mainstay.connectors.postgres.columns import composed
from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.prepared import SETTING, refusal
from mainstay.connectors.postgres.session import Server
from mainstay.connectors.postgres.states.sessions import StateRefusedError
from mainstay.connectors.postgres.states.store import PostgresStore
from mainstay.connectors.postgres.states.unstaged import UnstagedTables
from mainstay.runtime.connector import UnavailableError
from mainstay.state.backends.external.store import TableSet, still_missing
from mainstay.state.backends.external.votes import Doubt, FenceHeldError, Part, Vote
from mainstay.state.keygroups import KeyGroupRange

WAIT_MS = 5000
"""How long a vote waits for a lock. Only a call of its own that got lost can hold one."""

_NAME = re.compile(
    r"m(?P<making>\w*?)_a(?P<attempt>\d+)_g(?P<first>\d+)-(?P<last>\d+)_e(?P<epoch>\d+)"
)
_NAMES = """
SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, {})
"""
_DOUBTS = """
SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8 FROM pg_prepared_xacts
WHERE database = current_database() AND starts_with(gid, {})
"""
_LINE_UP = "SELECT pg_advisory_xact_lock(hashtextextended({}, 1))"


def prefix_of(tables: TableSet) -> str:
    """How the names of all votes of an operator begin, for any making of its tables."""
    return f"{owner_of(tables.lineage, tables.uid)}_state_"


def name_of(vote: Vote) -> str:
    """The name of a vote: at most 200 bytes."""
    whose = f"{prefix_of(vote.tables)}m{vote.tables.making}_a{vote.attempt}"
    return f"{whose}_g{vote.groups.first}-{vote.groups.last}_e{vote.epoch}"


def vote_of(name: str, tables: TableSet) -> Vote | None:
    """The vote of an operator that a name means; None if it is none."""
    found = _NAME.fullmatch(name.removeprefix(prefix_of(tables)))
    if found is None:
        return None
    attempt, first, last, epoch = (int(found[p]) for p in ("attempt", "first", "last", "epoch"))
    made = TableSet(tables.lineage, tables.uid, found["making"])
    return Vote(made, attempt, KeyGroupRange(first, last), epoch)


class VotingPostgresStore(PostgresStore):
    """The state of one subtask in a schema of a database, with votes."""

    def __init__(self, server: Server, schema: str, name: str) -> None:
        super().__init__(server, schema, name)
        self._unstaged = UnstagedTables(schema)

    def check_votes(self, subtasks: int) -> None:
        with self._sessions.connection() as connection:
            ((setting,),) = connection.execute(SETTING).fetchall()
        if setting < subtasks:
            each = f"one for each of its {subtasks} subtasks, and more for other operators"
            instead = 'ms.Postgres(protocol="logged"), which needs none'
            told = refusal(self.name, setting, subtasks, "an operator's state", each, instead)
            raise StateRefusedError(told)

    def votes(self, tables: TableSet) -> list[Vote]:
        with self._sessions.connection() as connection:
            return self._votes(connection, tables)

    def _votes(self, connection: Any, tables: TableSet) -> list[Vote]:
        names = connection.execute(composed(_NAMES, prefix_of(tables))).fetchall()
        found = (vote_of(name, tables) for (name,) in names)
        return [vote for vote in found if vote is not None]

    def doubts(self, tables: TableSet) -> list[Doubt]:
        with self._sessions.connection() as connection:
            rows = connection.execute(composed(_DOUBTS, prefix_of(tables))).fetchall()
        found = ((vote_of(name, tables), age_s, name) for name, age_s in rows)
        return [
            Doubt(vote, age_s, f"ROLLBACK PREPARED '{name}'")
            for vote, age_s, name in found
            if vote is not None
        ]

    # ------------------------------------------------------------ preparing

    def prepare(self, vote: Vote, parts: Sequence[Part], forget_up_to: int) -> None:
        with self._sessions.connection() as connection:
            if self._is_there(connection, vote):
                return
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            self._line_up_vote(connection, vote)
            self._check_fence(connection, vote.tables, vote.attempt)
            for part in parts:
                self._do(connection, vote.tables, part)
            self._forget(connection, vote.tables, vote.groups, forget_up_to)
            self._prepare(connection, name_of(vote))

    def _is_there(self, connection: Any, vote: Vote) -> bool:
        """Whether it is prepared. One that this subtask has given up and that got there all the
        same is rolled back, because it holds locks."""
        for each in self._votes(connection, vote.tables):
            if each == vote:
                return True
            if (each.attempt, each.groups) == (vote.attempt, vote.groups):
                _finish(connection, "ROLLBACK", each)
        return False

    def _line_up_vote(self, connection: Any, vote: Vote) -> None:
        connection.execute(f"SET LOCAL lock_timeout = {WAIT_MS}")
        connection.execute(composed(_LINE_UP, name_of(vote)))

    def _do(self, connection: Any, tables: TableSet, part: Part) -> None:
        self._line_up(connection, tables, part.segment.segment)
        covered = self._covered(connection, tables, part.segment)
        runs, missing = still_missing(part.changes, part.segment, covered)
        for each in missing:
            self._table(connection, tables, each.state)
            self._unstaged.write(connection, self._known[tables][each.state], each)
        self._note(connection, tables, part.segment, runs)

    def _prepare(self, connection: Any, name: str) -> None:
        try:
            tag = connection.execute(composed("PREPARE TRANSACTION {}", name)).statusmessage
        except driver().errors.OutOfMemory as error:
            raise UnavailableError(
                f"{self.name}: all prepared transactions that the server allows are in use "
                "(max_prepared_transactions in postgresql.conf). SELECT * FROM pg_prepared_xacts "
                "says whose they are."
            ) from error
        if tag != "PREPARE TRANSACTION":
            # A transaction that is broken is rolled back without a word.
            raise UnavailableError(f"{self.name}: transaction {name} was rolled back ({tag})")

    # ------------------------------------------------------------ settling

    def commit_vote(self, vote: Vote) -> bool:
        with self._sessions.connection() as connection:
            return _finish(connection, "COMMIT", vote)

    def roll_back_vote(self, vote: Vote) -> None:
        with self._sessions.connection() as connection:
            if _finish(connection, "ROLLBACK", vote):
                return
            # A call that got lost has the lock, and with it a vote that it has just prepared.
            with connection.transaction():
                self._line_up_vote(connection, vote)


def _finish(connection: Any, verb: str, vote: Vote) -> bool:
    """Commit or roll back a vote; False if there is none of that name."""
    errors = driver().errors
    try:
        connection.execute(composed(f"{verb} PREPARED {{}}", name_of(vote)))
    except errors.UndefinedObject:
        return False
    except errors.ObjectNotInPrerequisiteState as error:
        raise FenceHeldError(f"somebody else is settling {name_of(vote)}") from error
    return True
