"""Named points of the statements that keep state in PostgreSQL, and a server that crashes there.

*Before* and *after* a statement its caller is held in this process. *Inside* is inside the server:
a lock or a trigger of the test keeps the statement from ending (a COPY has got half of its rows),
and the server is stopped once it says that it is at it.
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

from tests.drive.ledger import PATIENCE_S, await_until
from tests.services.postgres import PostgresServer

MOMENTS = ("before", "inside", "after")
POINTS = {"logged": ("read", "stage", "apply", "ledger", "commit")}
"""By protocol, in the order in which a row passes them."""

STATEMENTS = {
    "read": r"^\s*SELECT k, s, v FROM .* WHERE k = ANY",
    "stage": r"^\s*COPY .* FROM STDIN",
    "apply": r"^\s*INSERT INTO .* ON CONFLICT \(k, s\)",
    "ledger": r"^\s*INSERT INTO .*mainstay_state_ledger",
    "commit": r"^\s*COMMIT",
}
GATES = {"apply": 1, "ledger": 2, "commit": 3}
"""The locks that triggers wait for."""
_LOCK = 471_100
_SESSION = "mainstay_state"

# Half of the rows of each subtask are written when a segment is held. Rows come in order of k,
# which begins with the key-group; the groups of the two subtasks are 0 to 63 and 64 to 127.
_TRIGGERS = """
CREATE FUNCTION "{schema}".held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
    RETURN NEW;
END $$;
CREATE TRIGGER held BEFORE INSERT ON {table} FOR EACH ROW
    WHEN (get_byte(NEW.k, 1) % 64 >= 32) EXECUTE FUNCTION "{schema}".held({apply});
CREATE TRIGGER held BEFORE INSERT ON "{schema}".mainstay_state_ledger FOR EACH ROW
    EXECUTE FUNCTION "{schema}".held({ledger});
CREATE CONSTRAINT TRIGGER held_at_the_end AFTER INSERT ON "{schema}".mainstay_state_ledger
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "{schema}".held({commit});
"""
_HELD = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state = 'active'
AND query ~ %s AND (wait_event_type = 'Lock' OR %s)
"""


def install(dsn: str, schema: str, table: str) -> None:
    """Make the triggers that hold statements on the table of a state, when they are told to."""
    locks = {name: _LOCK + number for name, number in GATES.items()}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_TRIGGERS.format(schema=schema, table=table, **locks))


@contextmanager
def held_inside(dsn: str, point: str, table: str) -> Iterator[None]:
    """Statements at a point do not end, until the server has crashed."""
    with psycopg.connect(dsn) as connection:
        if point in GATES:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK + GATES[point]])
        elif point == "read":
            connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        try:
            yield
        finally:
            connection.close()


def is_inside(dsn: str, point: str) -> bool:
    """Whether the server is at a statement of a job, and cannot end it."""
    values = [_SESSION, STATEMENTS[point], point == "stage"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((found,),) = connection.execute(_HELD, values).fetchall()
    return bool(found)


@dataclass
class Held:
    """Holds the first who comes by a point in this process, until it is told to go on."""

    point: str
    moment: str

    def __post_init__(self) -> None:
        self._first = threading.Lock()
        self.reached, self.goes_on = threading.Event(), threading.Event()
        self._noted: set[int] = set()

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
            self._hold(point, "after")
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
            is_commit = id(transaction.connection) in self._noted and error[0] is None
            self._noted.discard(id(transaction.connection))
            point = "commit" if is_commit else ""
            self._hold(point, "before")
            result = leave(transaction, *error)
            if self._hold(point, "after"):
                raise psycopg.OperationalError("the answer is lost")
            return result

        return left

    def _point_of(self, connection: Any, query: Any) -> str:
        text = query if isinstance(query, str) else query.as_string(connection)
        found = [name for name in ("read", "apply", "ledger") if re.match(STATEMENTS[name], text)]
        if "ledger" in found:
            self._noted.add(id(connection))
        return found[0] if found else ""


def crash(
    server: PostgresServer,
    dsn: str,
    table: str,
    point: str,
    moment: str,
    go: Callable[[], None],
) -> None:
    """Crash the server when a job is at a point, and start it again. ``go`` gives the job rows."""
    if moment == "inside" and point != "stage":
        with held_inside(dsn, point, table):
            go()
            await_until(lambda: is_inside(dsn, point), f"the server is inside a {point}")
            _restart(server)
        return
    held = Held(point, moment)
    with held.installed():
        go()
        assert held.reached.wait(PATIENCE_S), f"nobody has come by, {moment} {point}"
        if moment == "inside":
            await_until(lambda: is_inside(dsn, point), f"the server is inside a {point}")
        _restart(server)
        held.goes_on.set()


def _restart(server: PostgresServer) -> None:
    server.stop("immediate")
    server.start()
