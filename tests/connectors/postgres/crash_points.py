"""Where a server crashes while a job writes its state: before, inside and after each statement.

"Inside" is seen by the server's own activity. A job is held before or after a statement in this
process, where its workers run as well.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import psycopg

from tests.connectors.postgres.crash_gates import STATEMENTS, commits_held, held_inside, is_inside
from tests.drive.ledger import PATIENCE_S, await_until
from tests.services.postgres import PostgresServer

MOMENTS = ("before", "inside", "after")
POINTS = {
    "logged": ("read", "stage", "apply", "ledger", "commit"),
    "versioned": (
        "read",
        "stage",
        "ledger",
        "commit",
        "pointer",
        "commit of pointer",
        "fold",
        "commit of fold",
    ),
    "prepared": ("read", "fence", "apply", "ledger", "prepare", "commit prepared"),
}
"""By protocol, in the order in which a row passes them. A vote has no stage: its rows travel with
the statement that applies them."""

_COMMITS = {"ledger": "commit", "pointer": "commit of pointer", "fold": "commit of fold"}
"""What the end of a transaction is called, by a statement that it has."""
_EXECUTED = ("read", "fence", "ledger", "apply", "pointer", "fold", "prepare", "commit prepared")
_ENDS = ("prepare", "commit prepared")
"""Statements whose answer says what became of a transaction. It is lost, when the server crashes
after them."""


@dataclass
class Held:
    """Holds the first who comes by a point in this process, until it is told to go on."""

    point: str
    moment: str

    def __post_init__(self) -> None:
        self._first = threading.Lock()
        self.reached, self.goes_on = threading.Event(), threading.Event()
        self._noted: dict[int, str] = {}

    def _hold(self, point: str, moment: str) -> bool:
        if (point, moment) != (self.point, self.moment) or not self._first.acquire(blocking=False):
            return False
        self.reached.set()
        assert self.goes_on.wait(PATIENCE_S), "the test does not go on"
        return True

    @contextmanager
    def installed(self) -> Iterator[None]:
        replaced: list[tuple[Any, str, Any]] = [
            (psycopg.Cursor, "execute", self._execute),
            (psycopg.Cursor, "copy", self._copy),
            (psycopg.Copy, "write", self._write),
            (psycopg.Transaction, "__exit__", self._leave),
        ]
        with ExitStack() as stack:
            for owner, name, make in replaced:
                ours = make(getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, ours))
            yield

    def _execute(self, execute: Any) -> Any:
        def executed(cursor: Any, query: Any, *args: Any, **more: Any) -> Any:
            point = self._point_of(cursor.connection, query)
            self._hold(point, "before")
            result = execute(cursor, query, *args, **more)
            if self._hold(point, "after") and point in _ENDS:
                raise psycopg.OperationalError("the answer is lost")
            return result

        return executed

    def _copy(self, copy: Any) -> Any:
        @contextmanager
        def copied(*args: Any, **more: Any) -> Iterator[Any]:
            self._hold("stage", "before")
            with copy(*args, **more) as begun:
                yield begun
            self._hold("stage", "after")

        return copied

    def _write(self, write: Any) -> Any:
        def written(copy: Any, data: bytes) -> None:
            write(copy, data[: len(data) // 2])
            self._hold("stage", "inside")
            write(copy, data[len(data) // 2 :])

        return written

    def _leave(self, leave: Any) -> Any:
        def left(transaction: Any, *error: Any) -> Any:
            noted = self._noted.pop(id(transaction.connection), "")
            point = noted if error[0] is None else ""
            self._hold(point, "before")
            result = leave(transaction, *error)
            if self._hold(point, "after"):
                raise psycopg.OperationalError("the answer is lost")
            return result

        return left

    def _point_of(self, connection: Any, query: Any) -> str:
        text = query if isinstance(query, str) else query.as_string(connection)
        found = next((name for name in _EXECUTED if re.match(STATEMENTS[name], text)), "")
        if found in _COMMITS:
            self._noted[id(connection)] = _COMMITS[found]
        return found


@dataclass(frozen=True)
class Crashing:
    """A server that crashes when a job is at a point. ``table`` is where rows are in the end."""

    server: PostgresServer
    dsn: str
    schema: str
    table: str

    def crash(self, point: str, moment: str, go: Callable[[], None]) -> None:
        """Crash, and start again. ``go`` gives the job rows."""
        if moment != "inside" or point == "stage":
            self._crash_held(point, moment, go)
        elif point == "commit prepared":
            self._crash_in_commit(point, go)
        else:
            with held_inside(self.dsn, self.schema, self.table, point):
                go()
                self._crash_inside(point)

    def _crash_held(self, point: str, moment: str, go: Callable[[], None]) -> None:
        with self._reached(point, moment, go) as held:
            if moment == "inside":
                self._crash_inside(point)
            else:
                self._restart()
            held.goes_on.set()

    def _crash_in_commit(self, point: str, go: Callable[[], None]) -> None:
        with self._reached(point, "before", go) as held, commits_held(self.dsn):
            held.goes_on.set()
            self._crash_inside(point)

    @contextmanager
    def _reached(self, point: str, moment: str, go: Callable[[], None]) -> Iterator[Held]:
        held = Held(point, moment)
        with held.installed():
            go()
            assert held.reached.wait(PATIENCE_S), f"nobody has come by, {moment} {point}"
            yield held

    def _crash_inside(self, point: str) -> None:
        await_until(lambda: is_inside(self.dsn, point), f"the server is inside a {point}")
        self._restart()

    def _restart(self) -> None:
        self.server.stop("immediate")
        self.server.start()
