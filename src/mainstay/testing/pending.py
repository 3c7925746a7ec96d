"""Timers that are set and have not fired, as a test looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.storage import Storage
from mainstay.state.info import StateInfo
from mainstay.testing.inspect import committed_state, operator_of


class PendingTimer(NamedTuple):
    """A timer that is set and has not fired.

    ``domain`` is ``event_time`` or ``processing_time``; ``name`` that of its declaration, or None
    where ``ctx.timers`` set it.
    """

    key: Any
    at: datetime
    domain: str
    name: str | None


def pending_timers(storage: Storage, job: JobSpec, uid: str) -> list[PendingTimer]:
    """The timers of an operator at the last epoch, in the order in which they are due."""
    timers = [info for info in operator_of(job, uid).states if info.timer is not None]
    if not timers:
        raise KeyError(f"operator {uid!r} has no timers: its function has no on_timer")
    found = [each for info in timers for each in _pending(storage, job, uid, info)]
    return sorted(found, key=lambda each: (each.at, each.domain, repr(each.key), each.name or ""))


def _pending(storage: Storage, job: JobSpec, uid: str, info: StateInfo) -> Iterator[PendingTimer]:
    assert info.timer is not None
    for entry, value in committed_state(storage, job, uid, info.name).items():
        if info.namespace is None:
            yield PendingTimer(entry, value, info.timer.domain, info.name)
        else:
            key, at = entry
            yield PendingTimer(key, at, info.timer.domain, None)
