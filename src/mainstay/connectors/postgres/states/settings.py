"""What a job says about state in PostgreSQL."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field
from typing import Any

from mainstay.connectors.postgres.driver import driver
from mainstay.connectors.postgres.session import Server
from mainstay.connectors.postgres.states.versions import VersionedPostgresStore
from mainstay.connectors.postgres.states.voting import VotingPostgresStore
from mainstay.errors import GraphError
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import size
from mainstay.spelling import did_you_mean
from mainstay.state.backends.contract import KeyedBackend, Place
from mainstay.state.backends.external.backend import ExternalBackend, Remote
from mainstay.state.backends.external.descriptor import STORES
from mainstay.state.backends.external.protocols import PROTOCOLS

SMALLEST_CACHE_BYTES = 1 << 20

_BACKENDS: dict[tuple[int, str], weakref.WeakSet[Any]] = {}
"""The backends of a process that share its cache. By process, because a forked one has its own."""


@made_with_own_frames
@dataclass(frozen=True, slots=True)
class Postgres:
    """Keep keyed state in tables of PostgreSQL, which outlive workers and can be read by others.

    ``cache`` is what a worker process keeps of it in memory, besides the changes of epochs that
    are not committed. ``schema`` is where the tables are made.
    """

    dsn: str = field(repr=False)
    protocol: str = "logged"
    schema: str = "mainstay_state"
    cache: str | int = "256MiB"
    timeout: str | float = "60 s"

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise GraphError(
                f"Postgres(protocol={self.protocol!r}) is unknown: there is "
                f"{', '.join(map(repr, PROTOCOLS))}.{did_you_mean(self.protocol, PROTOCOLS)}"
            )
        if not isinstance(self.schema, str) or not self.schema:
            raise GraphError(f"Postgres(schema={self.schema!r}) must be the name of a schema.")
        if self.cache_bytes < SMALLEST_CACHE_BYTES:
            raise GraphError(f"Postgres(cache={self.cache!r}) must be at least 1MiB.")
        self._register()

    @property
    def cache_bytes(self) -> int:
        return size(self.cache, "cache")

    @property
    def server(self) -> Server:
        return Server.checked(self.dsn, self.timeout, "Postgres")

    @property
    def name(self) -> str:
        """What snapshots call it: not by its host, which may change, and without secrets."""
        server = self.server
        given = driver().conninfo.conninfo_to_dict(server.dsn)
        database = given.get("dbname") or given.get("user") or "default"
        how = " (versioned)" if self._is_versioned else ""
        return f"schema {self.schema!r} of the PostgreSQL database {database!r}{how}"

    @property
    def _is_versioned(self) -> bool:
        return self.protocol == "versioned"

    def _register(self) -> None:
        """Let this process read what snapshots say of this database."""
        STORES[self.name] = self._store

    def _store(self) -> VotingPostgresStore:
        store = VersionedPostgresStore if self._is_versioned else VotingPostgresStore
        return store(self.server, self.schema, self.name)

    def open(self, place: Place) -> KeyedBackend:
        self._register()
        sharing = _BACKENDS.setdefault((os.getpid(), self.name), weakref.WeakSet())
        cache_bytes = self.cache_bytes

        def part_bytes() -> int:
            return cache_bytes // max(1, len(sharing))

        protocol = PROTOCOLS[self.protocol]
        remote = Remote(self._store(), part_bytes, protocol, on_close=sharing.discard)
        backend = ExternalBackend(place, remote)
        sharing.add(backend)
        return backend
