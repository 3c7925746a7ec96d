"""The server that is measured, what it has used, and where the time of a job goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import psycopg

import mainstay as ms
from mainstay.connectors.postgres.states import (
    store,
    tables,
    unstaged,
    version_tables,
    versions,
    voting,
)
from mainstay.state.backends.external import own_tables
from tests.services.postgres import PostgresServer

PROTOCOLS = ("logged", "versioned", "prepared")
SCHEMA = "bench_state"
BUFFERS = "1GB"


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A private server with the settings of a small one, but for ``fsync``."""
    server = PostgresServer(buffers=BUFFERS)
    try:
        server.start()
        yield server
    finally:
        server.close()


def asked(server: PostgresServer, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def emptied(server: PostgresServer) -> None:
    """Drop the tables of the jobs before."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def backend_named(name: str, server: PostgresServer, cache: str | int = "256MiB") -> Any:
    """What ``Environment(state=...)`` is given: heap, rocksdb, or a protocol of PostgreSQL."""
    if name == "heap":
        return "heap"
    if name == "rocksdb":
        return ms.RocksDB()
    return ms.Postgres(server.dsn, protocol=name, schema=SCHEMA, cache=cache)


def server_cpu_s(server: PostgresServer) -> float:
    """The processor's time of all processes of the server that are still there."""
    total = 0.0
    for process in server._processes():
        times = process.cpu_times()
        total += times.user + times.system
    return total


@dataclass
class Spent:
    """The seconds that calls took, and the processor's time of their threads within them."""

    wall_s: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **more: Any) -> Any:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return call(*args, **more)
            finally:
                self._add(self.wall_s, name, time.perf_counter() - began)
                self._add(self.cpu_s, name, time.thread_time() - cpu)

        return measured

    def _add(self, times: dict[str, float], name: str, seconds: float) -> None:
        times[name] = times.get(name, 0.0) + seconds

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Measure reads, what encoding takes, and what the statements of a segment take."""
        calls: list[tuple[Any, str, str]] = [
            (store.PostgresStore, "read", "read"),
            (versions.VersionedPostgresStore, "read", "read"),
            (own_tables, "changes_in", "encode"),
            (tables, "as_csv", "encode"),
            (version_tables, "as_csv", "encode"),
            (unstaged, "array_of", "encode"),
            (store.PostgresStore, "apply", "apply"),
            (versions.VersionedPostgresStore, "complete", "apply"),
            (versions.VersionedPostgresStore, "fold", "apply"),
            (voting.VotingPostgresStore, "prepare", "apply"),
            (voting.VotingPostgresStore, "commit_vote", "apply"),
        ]
        with ExitStack() as stack:
            for owner, called, name in calls:
                timed = self.timed(name, getattr(owner, called))
                stack.enter_context(mock.patch.object(owner, called, timed))
            yield
