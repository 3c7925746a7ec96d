"""What a query is put to: a place of snapshots, or a job by its name or address."""

from __future__ import annotations

import os

from mainstay.client.address import is_address
from mainstay.client.connecting import connect
from mainstay.client.http_connection import HttpConnection
from mainstay.control.target import is_name, place_of_job, target_of, unknown_place
from mainstay.inspect.connection import Connection
from mainstay.runtime.coordinator.origin import place_of


def asked(
    place: str, token: str | None = None, pid: int | None = None, *, is_live: bool = False
) -> Connection:
    """A job that is named is asked by its snapshots, unless it is its live state that is wanted.

    So its process has no work with it, and one that was killed is asked as well. A folder of the
    same name is meant by ``./name``.
    """
    is_there = os.path.exists(place_of(place)[0])
    is_path = "://" in place or os.sep in place or (is_there and not is_name(place))
    if is_address(place) or (is_live and not is_path):
        return HttpConnection(target_of(place, token, pid).service)
    if is_path:
        return connect(place)
    if not is_name(place):
        raise unknown_place(place)
    return connect(place_of_job(place, pid))
