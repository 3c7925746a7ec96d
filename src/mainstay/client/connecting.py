"""``connect``: the state of a job by where it is, its snapshots or its address."""

from __future__ import annotations

import os

from mainstay.client.address import Address, is_address
from mainstay.inspect.connection import Connection
from mainstay.inspect.stored_connection import StoredConnection


def connect(place: str | os.PathLike[str]) -> Connection:
    """Ask the state of a job: by its snapshots, running or not, or by its address while it runs.

    ``place`` is a snapshot directory, a savepoint, or what ``job.url`` shows.
    """
    if not is_address(place):
        return StoredConnection(place)
    from mainstay.client.http_connection import HttpConnection
    from mainstay.client.service import Service

    return HttpConnection(Service(Address.of(os.fspath(place))))
