"""Silence: which worker is given up because nothing is heard of it, and which hosts are with it.

The end of a process is told: by its peers, whose links break, or by what supervises it. A host that
has lost its power or its network tells nobody, and nothing that runs there does. So a host is taken
for lost when nobody there is heard of any more while somebody elsewhere is.

Where nobody is heard of on any of several hosts, it is rather the driver that is cut off. Nothing
is given up then for as long as the lease of the workers runs: if the link is back before, the
attempt goes on. After that nobody is left to be heard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    is_everywhere: bool = False
    """Whether nobody is heard of on any host, and there are several."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """Nobody is heard of on any of several hosts, for so long: nothing is given up yet."""

    silent_s: float
    hosts: int


class Listening:
    """What follows from when the workers of an attempt were heard of, over its course.

    After ``patience_s`` a silent worker is given up, where all are silent only after ``lease_s``:
    then they have ended themselves.
    """

    def __init__(self, patience_s: float, lease_s: float) -> None:
        self._patience_s = patience_s
        self._lease_s = lease_s
        self._is_cut_off = False
        self._back_at = -math.inf

    def judge(self, sightings: Iterable[Sighting], now: float) -> Silence | CutOff | None:
        """Which worker is given up; None while all are in time, or have to be given time again."""
        seen = list(sightings)
        if self._is_cut_off and not self._are_all_quiet(seen, now):
            # Links come back one by one: who is heard first is not the only one left.
            self._is_cut_off, self._back_at = False, now
        given = [replace(each, heard=max(each.heard, self._back_at)) for each in seen]
        found = silence(given, now, self._patience_s)
        if found is None or not found.is_everywhere:
            return found
        silent_s = now - max(each.heard for each in seen)
        if silent_s > self._lease_s:
            return found
        self._is_cut_off = True
        return CutOff(silent_s, len({each.host for each in seen}))

    def _are_all_quiet(self, seen: list[Sighting], now: float) -> bool:
        return _is_quiet(seen, now, self._patience_s)


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
        is_everywhere = len(hosts) > 1
        also = ", nor was any worker of another host" if is_everywhere else ""
        return Silence(seen[0].worker, reason + also, (), is_everywhere)
    return Silence(seen[0].worker, reason, tuple(_lost(on, now) for on in quiet.values()))


def _is_quiet(on: list[Sighting], now: float, patience_s: float) -> bool:
    return all(now - each.heard > QUIET * patience_s for each in on)


def _lost(on: list[Sighting], now: float) -> LostHost:
    workers = tuple(sorted(each.worker for each in on))
    return LostHost(on[0].host, workers, now - max(each.heard for each in on))
