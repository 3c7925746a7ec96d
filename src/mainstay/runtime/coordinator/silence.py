"""Silence: which worker is given up because nothing is heard of it, and which hosts are with it.

The end of a process is told: by its peers, whose links break, or by what supervises it. A host that
has lost its power or its network tells nobody, and nothing that runs there does. So a host is taken
for lost when nobody there is heard of any more while somebody elsewhere is. Where nobody is heard
of anywhere, it is rather the driver that is cut off, and no host is to blame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

QUIET = 0.5
"""After this part of the patience with a worker it counts as quiet, when another one is given up:
what ends a host or a network ends all that is heard of it at one moment, give or take a heartbeat.
"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """When a worker was last heard of, and the host that it is on."""

    worker: int
    host: str
    heard: float


@dataclass(frozen=True, slots=True)
class LostHost:
    """A host of which nothing is heard: for how long, and which workers it has."""

    host: str
    workers: tuple[int, ...]
    silent_s: float


@dataclass(frozen=True, slots=True)
class Silence:
    """The worker that is given up, why, and the hosts that are taken for lost with it."""

    worker: int
    reason: str
    hosts: tuple[LostHost, ...]


def silence(sightings: Iterable[Sighting], now: float, patience_s: float) -> Silence | None:
    """What follows from when each worker was last heard of; None while all are in time."""
    seen = sorted(sightings, key=lambda each: (each.heard, each.worker))
    if not seen or now - seen[0].heard <= patience_s:
        return None
    hosts: dict[str, list[Sighting]] = {}
    for each in seen:
        hosts.setdefault(each.host, []).append(each)
    quiet = {host: on for host, on in hosts.items() if _is_quiet(on, now, patience_s)}
    reason = f"it was not heard of for {patience_s} s"
    if len(quiet) == len(hosts):
        also = ", nor was any worker of another host" if len(hosts) > 1 else ""
        return Silence(seen[0].worker, reason + also, ())
    return Silence(seen[0].worker, reason, tuple(_lost(on, now) for on in quiet.values()))


def _is_quiet(on: list[Sighting], now: float, patience_s: float) -> bool:
    return all(now - each.heard > QUIET * patience_s for each in on)


def _lost(on: list[Sighting], now: float) -> LostHost:
    workers = tuple(sorted(each.worker for each in on))
    return LostHost(on[0].host, workers, now - max(each.heard for each in on))
