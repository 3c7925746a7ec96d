"""Sessions with a PostgreSQL server: how they are opened, limited in time, and broken off.

Every call has a time limit, because nobody else can end one: when it is over the call fails, and
its caller tries again. What a server refuses for good is an error that ends the attempt; all
else may heal, and is an ``UnavailableError`` (``refusals``).
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.dsn import problem_with, secrets_in
from mainstay.connectors.postgres.refusals import is_final, is_refused_login, message
from mainstay.errors import GraphError, MainstayError
from mainstay.masking import masked
from mainstay.quantities import seconds
from mainstay.runtime.connector import UnavailableError

CONNECT_S = 10
RAW = "SQL_ASCII"
"""The encoding of a database that keeps whatever bytes it is given."""
NAME_BYTES = 63
"""How long a name of a table or column may be, and a text of the type ``name``."""
PAUSE_S = 0.5
"""How long a server that is away is left alone; nobody tells when it is back."""

# Values are read and written as text: it has to mean the same on every server. What was
# acknowledged must be durable, or a complete epoch could be lost with the server.
_SETTINGS = """
SET client_encoding = 'UTF8';
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
SET bytea_output = 'hex';
SET extra_float_digits = 1;
SET idle_in_transaction_session_timeout = 0;
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') = 'off'
"""


@dataclass(frozen=True, slots=True, repr=False)
class Server:
    """Where a server is. The password is part of the DSN and must not get into messages."""

    dsn: str
    timeout_s: float

    def __repr__(self) -> str:
        return f"Server({self})"

    @staticmethod
    def checked(dsn: Any, timeout: str | float, where: str) -> Server:
        """The server that a job's author means; ``where`` is the class that was given it."""
        driver()
        if not isinstance(dsn, str) or not dsn.strip():
            raise GraphError(
                f"{where}: the first argument must be a text that says how to connect, as in "
                '"postgresql://user@host/database" or "host=... dbname=...".'
            )
        problem = problem_with(dsn)
        if problem is not None:
            raise GraphError(
                f"{where}: the connection string cannot be understood: {problem}. Write "
                '"postgresql://user@host/database" or "host=... dbname=...".'
            )
        return Server(dsn, seconds(timeout, "timeout", positive=True))

    def __str__(self) -> str:
        given = driver().conninfo.conninfo_to_dict(self.dsn)
        host = given.get("host") or given.get("hostaddr") or "the default host"
        port = f":{given['port']}" if given.get("port") else ""
        return f"database {given.get('dbname') or given.get('user') or 'default'!r} at {host}{port}"

    def connect(
        self, name: str, error: type[MainstayError], *, is_patient: bool = False
    ) -> Session:
        """A session that others know by ``name``; ``error`` is what a refusal becomes.

        A patient one is tried for as long as a call may take. It is for the rows of a
        sink: each failure there costs an epoch, and an attempt has few to lose.
        """
        until = time.monotonic() + (self.timeout_s if is_patient else 0.0)
        while True:
            try:
                return self._connect(name, error)
            except UnavailableError:
                if time.monotonic() + PAUSE_S > until:
                    raise
            time.sleep(PAUSE_S)

    def _connect(self, name: str, error: type[MainstayError]) -> Session:
        psycopg = driver()
        given = psycopg.conninfo.conninfo_to_dict(self.dsn)
        settings: dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            **given,
            "application_name": name,
            "client_encoding": "UTF8",
        }
        with reported(self, error, is_refused_login):
            connection = _limited_connection().connect(**settings, autocommit=True)
            connection.limit_s = self.timeout_s
            session = Session(self, connection, name, error)
        try:
            session.run(_SETTINGS)
        except BaseException:
            session.close()
            raise
        return session


class Session:
    """One connection, used by one thread at a time. Statements commit by themselves."""

    def __init__(self, server: Server, connection: Any, name: str, error: type[Exception]) -> None:
        self.server = server
        self.name = name
        self.pid: int = connection.info.backend_pid
        self.encoding: str = connection.info.parameter_status("server_encoding") or "UTF8"
        """How the database keeps texts. They travel as UTF-8, whatever it is."""
        self.is_broken = False
        """Whether a call has failed or was cut off, so that the server may still be at it."""
        self._connection = connection
        self._error = error
        self._in_use = threading.Lock()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, statement: Any) -> int:
        """Execute without arguments; several statements may be in one. How many rows it touched."""
        with self.using():
            return self._connection.execute(statement).rowcount  # type: ignore[no-any-return]

    def prepare(self, name: str) -> None:
        """``PREPARE TRANSACTION``, which rolls a broken transaction back without a word."""
        statement = driver().sql.SQL("PREPARE TRANSACTION {}").format(name)
        with self.using():
            tag = self._connection.execute(statement).statusmessage
        if tag != "PREPARE TRANSACTION":
            raise UnavailableError(f"{self.server}: transaction {name} was rolled back ({tag})")

    def ask(self, query: Any, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that a query gives. One with names in it has no values: "%" may be in a name."""
        with self.using():
            found = self._connection.execute(query, values or None).fetchall()
        return found  # type: ignore[no-any-return]

    def copy_in(self, statement: Any, data: bytes) -> None:
        """``COPY ... FROM STDIN``."""
        with self.using(), self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(data)

    def copy_out(self, statement: Any) -> bytes:
        """``COPY ... TO STDOUT``. What a database without an encoding gives may be no UTF-8."""
        if self.encoding != RAW:
            return self._copy_out(statement)
        # The server would refuse all rows for one text, and not say which.
        statement = statement.as_bytes(self._connection)
        self.run(f"SET client_encoding = '{RAW}'")
        data = self._copy_out(statement)
        self.run("SET client_encoding = 'UTF8'")
        return data

    def _copy_out(self, statement: Any) -> bytes:
        with self.using(), self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            return b"".join(copy)

    def await_notice(self, timeout_s: float) -> bool:
        """Wait for a notification of a channel that is listened to; whether there was one."""
        with self.using():
            return any(True for _ in self._connection.notifies(timeout=timeout_s, stop_after=1))

    @contextmanager
    def using(self) -> Iterator[Any]:
        """The connection, for one call within the time limit."""
        with self._in_use, reported(self.server, self._error):
            try:
                yield self._connection
            except BaseException:
                self.is_broken = True
                raise

    def close(self) -> None:
        """End the session; a call that is under way in another thread fails."""
        if self._in_use.acquire(blocking=False):
            try:
                self._connection.close()
            finally:
                self._in_use.release()
        else:
            # Closing is not for two threads at once. The other one sees the end of the stream; it
            # may have closed the connection itself by now.
            with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as copy:
                copy.shutdown(socket.SHUT_RDWR)


@functools.cache
def _limited_connection() -> Any:
    """The class of connections that do not wait for an answer for ever."""
    psycopg = driver()

    base: Any = psycopg.Connection

    class LimitedConnection(base):  # type: ignore[misc]
        limit_s = 60.0

        def wait(self, steps: Any, *args: Any, **kwargs: Any) -> Any:
            return super().wait(_until(steps, self.limit_s), *args, **kwargs)

    def _until(steps: Any, limit_s: float) -> Generator[Any, Any, Any]:
        # The driver passes by several times a second, also where nothing happens.
        until = time.monotonic() + limit_s
        try:
            awaited = next(steps)
            while True:
                happened = yield awaited
                awaited = steps.send(happened)
                if time.monotonic() > until:
                    raise psycopg.OperationalError(f"no answer within {limit_s:g} s")
        except StopIteration as end:
            return end.value

    return LimitedConnection


@contextmanager
def reported(
    server: Server,
    error: type[Exception],
    is_refusal: Callable[[Exception], bool] = is_final,
) -> Iterator[None]:
    """Turn the driver's errors into those that the runtime knows."""
    try:
        yield
    except driver().Error as cause:
        kind = error if is_refusal(cause) else UnavailableError
        told = message(cause)
        shown = masked(told, secrets_in(server.dsn))
        # A traceback would show the driver's words.
        raise kind(f"{server}: {shown}") from (cause if shown == told else None)


def table_name(given: Any, where: str) -> tuple[str, ...]:
    """The parts of a table's name: the table, or its schema and the table."""
    parts = tuple(given.split(".")) if isinstance(given, str) else given
    is_name = isinstance(parts, tuple) and 1 <= len(parts) <= 2
    if not is_name or not all(isinstance(part, str) and part for part in parts):
        raise GraphError(
            f'{where}: the table {given!r} must be a name, as in "orders" or "sales.orders"; one '
            'with a dot in it is written as ("schema", "name.with.dot").'
        )
    for part in parts:
        if (problem := problem_with_name(part)) is not None:
            raise GraphError(f"{where}: the table {given!r} cannot be: {problem}. Rename it.")
    return tuple(parts)


def problem_with_name(name: str) -> str | None:
    """Why the server would take a name for another one, or for none."""
    if "\0" in name:
        return f"{name!r} has a zero byte, which no name can have"
    if (size := len(name.encode())) > NAME_BYTES:
        return (
            f"{name!r} has {size} bytes, and the server cuts names off after {NAME_BYTES}, so that "
            "it would be another name"
        )
    return None


def column_names(given: Any, name: str, where: str) -> tuple[str, ...]:
    """Names of columns: at least one, each once."""
    names = (given,) if isinstance(given, str) else tuple(given or ())
    if not names or not all(isinstance(each, str) and each for each in names):
        raise GraphError(f'{where}: {name}={given!r} must be names of columns, as in ("a", "b").')
    if len(set(names)) != len(names):
        raise GraphError(f"{where}: {name}={given!r} names a column twice.")
    return names
