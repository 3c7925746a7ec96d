"""High availability as a job's author writes it: where the election is held, and how long it takes.

::

    env = Environment(snapshots=Snapshots("s3://bucket/orders"), ha=HighAvailability(lease="10s"))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainstay.errors import GraphError
from mainstay.masking import refuse_login
from mainstay.own_frames import with_settings
from mainstay.quantities import seconds
from mainstay.snapshot.storage import absolute
from mainstay.snapshot.store_urls import refuse_torn

LEAST_S = 1.0
LEASE = "10s"


@with_settings
@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """Servers of ZooKeeper that hold the election of a job. The session is its lease.

    ``options`` go to the client as they are: ``default_acl``, ``auth_data``, ``sasl_options``,
    ``use_ssl``, ``ca``, ``certfile``, ``keyfile``.
    """

    hosts: str
    path: str = "/mainstay"
    session: str | float = LEASE
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.hosts, str) or not self.hosts.strip():
            raise GraphError(
                f"ZooKeeper({self.hosts!r}) needs its servers, as in "
                'ZooKeeper("zk1:2181,zk2:2181").'
            )
        if not isinstance(self.path, str) or not self.path.startswith("/") or "//" in self.path:
            raise GraphError(
                f"ZooKeeper(path={self.path!r}) must be a path from the root, as in "
                'path="/mainstay".'
            )
        if not isinstance(self.options, Mapping):
            raise GraphError(
                f"ZooKeeper(options={self.options!r}) must be a dictionary of what kazoo's client "
                'takes, as in options={"use_ssl": True}.'
            )
        self.session_s()

    def session_s(self) -> float:
        return _length(self.session, "session")


@with_settings
@dataclass(frozen=True, slots=True)
class HighAvailability:
    """Several drivers for one job: one leads it, the others stand by and take over.

    ``store`` is where the election is held: ``None`` for the snapshot directory itself, another
    directory or URL, or ``ZooKeeper(...)``. After ``lease`` without a sign of life of the leader,
    another driver leads.
    """

    store: str | os.PathLike[str] | ZooKeeper | None = None
    lease: str | float = LEASE

    def __post_init__(self) -> None:
        store = self.store
        if isinstance(store, ZooKeeper):
            if self.lease != LEASE:
                raise GraphError(
                    f"HighAvailability(lease={self.lease!r}): with ZooKeeper the session is the "
                    f"lease. Set ZooKeeper(session={self.lease!r}) instead."
                )
        elif store is not None:
            object.__setattr__(self, "store", _place(store))
        self.lease_s()

    def lease_s(self) -> float:
        if isinstance(self.store, ZooKeeper):
            return self.store.session_s()
        return _length(self.lease, "lease")


def _place(store: Any) -> str:
    if not isinstance(store, str | os.PathLike) or not os.fspath(store):
        raise GraphError(
            f"HighAvailability(store={store!r}) must be a directory, a URL or ZooKeeper(...), or "
            "left out to hold the election in the snapshot directory."
        )
    place = os.fspath(store)
    refuse_login(place, GraphError)
    refuse_torn(place, GraphError)
    if place.startswith("memory://"):
        raise GraphError(
            f"HighAvailability(store={place!r}): what is in memory:// no other process can see. "
            "Use a directory that all drivers share, or an object store."
        )
    return absolute(place)


def _length(text: str | float, name: str) -> float:
    length = seconds(text, name, positive=True)
    if length < LEAST_S:
        raise GraphError(
            f"{name}={text!r} is too short: a lease is at least 1 s, because the leader has to "
            "renew it several times in that time."
        )
    return length
