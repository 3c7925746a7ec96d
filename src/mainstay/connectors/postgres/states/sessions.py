"""The sessions of a process with the server of its state: a few, each lent to one caller at a time.

All subtasks of a process share them, so that a server has as many as work is done at once, and not
as many as there are subtasks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mainstay.connectors.postgres.session import PAUSE_S, Server, Session
from mainstay.errors import MainstayError
from mainstay.runtime.connector import UnavailableError
from mainstay.state.backends.external.store import StoreAwayError

MOST_IDLE = 4

# Rows are found by their keys. To the planner a table that the server has not analyzed yet looks as
# if every key had many rows, and it would read all of the table for a hundred of them.
_SETTINGS = "SET enable_seqscan = off"


REMEDIES = {
    "42501": "Give the role of the DSN the right: it needs USAGE and CREATE on the schema",
    "42P01": "A table was dropped or renamed: bring it back, or start the job from a savepoint",
    "42P16": "A table was changed: bring its columns back, or start the job from a savepoint",
    "42703": "A table was changed: bring its columns back, or start the job from a savepoint",
    "42939": "Name another schema: ms.Postgres(..., schema=...)",
}
"""What to do about a refusal, by SQLSTATE."""


class StateRefusedError(MainstayError):
    """The server refuses what the state of a job needs. Starting again does not help."""

    is_final = True

    def with_remedy(self) -> StateRefusedError:
        """The same, with what to do about it."""
        state = getattr(self.__cause__, "sqlstate", None) or ""
        remedy = REMEDIES.get(state)
        return self if remedy is None else StateRefusedError(f"{str(self).rstrip('.')}. {remedy}.")


class Sessions:
    """Sessions with one server. Those that nobody uses are closed with the last user."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._idle: list[Session] = []
        self._users = 0
        self._lock = threading.Lock()
        self._pausing = threading.Event()

    def join(self) -> None:
        with self._lock:
            self._users += 1
            self._pausing.clear()

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = not self._users
        if is_last:
            self._pausing.set()
            self._drop_idle()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A connection within a transaction."""
        with self.connection() as connection, connection.transaction():
            yield connection

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection on which each statement is a transaction.

        Where the server is away its caller is held up a little, because it asks again at once.
        """
        session: Session | None = None
        try:
            session = self._take()
            with session.using() as connection:
                yield connection
        except BaseException as error:
            if session is not None:
                session.close()
            if isinstance(error, UnavailableError):
                # The others have lost their server as well.
                self._drop_idle()
                self._pausing.wait(PAUSE_S)
                raise StoreAwayError(str(error)) from error
            if isinstance(error, StateRefusedError):
                raise error.with_remedy() from error.__cause__
            raise
        self._give_back(session)

    def _take(self) -> Session:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        session = self._server.connect("mainstay_state", StateRefusedError)
        try:
            session.run(_SETTINGS)
        except BaseException:
            session.close()
            raise
        return session

    def _give_back(self, session: Session) -> None:
        with self._lock:
            if self._users and len(self._idle) < MOST_IDLE:
                self._idle.append(session)
                return
        session.close()


_SHARED: dict[tuple[int, Server], Sessions] = {}


def shared_sessions(server: Server) -> Sessions:
    """The sessions of this process with a server. A forked process has its own."""
    return _SHARED.setdefault((os.getpid(), server), Sessions(server))
