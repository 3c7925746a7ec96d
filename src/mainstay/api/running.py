"""The jobs of this process that have not ended, by where their snapshots are.

A second job in the same directory would take the first one's place, which ends as soon as it
notices. Across processes that is what is wanted, where a driver has died. Within one it is a cell
of a notebook that was run twice.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

from mainstay.errors import GraphError
from mainstay.masking import masked
from mainstay.runtime.status import Status
from mainstay.snapshot.storage import absolute

_ENDS = {status.value for status in Status if status.is_final}

_running: WeakValueDictionary[str, Any] = WeakValueDictionary()


def check_free(directory: str | os.PathLike[str]) -> None:
    """Refuse a directory in which a job of this process is running."""
    job = _running.get(_location(directory))
    if job is None or job.status in _ENDS:
        return
    raise GraphError(
        f"job {job.name!r} of this program is {job.status} in {masked(os.fspath(directory))!r}, "
        "and a directory is for one job at a time. End that one first, with job.stop() or "
        "job.cancel(), or use another Snapshots directory."
    )


def take(directory: str | os.PathLike[str], job: Any) -> None:
    """A job has been started in a directory."""
    _running[_location(directory)] = job


def _location(directory: str | os.PathLike[str]) -> str:
    place = os.fspath(directory)
    return place.rstrip("/") if "://" in place else os.path.realpath(absolute(place))
