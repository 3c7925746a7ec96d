"""Loops without an engine, in processes side by side: what a bound for an engine is measured with.

A loop goes over the same prebuilt data again and again. There is no shuffle and no snapshot, and
nothing is kept from one round to the next but what the loop itself keeps.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.synchronize import Barrier
from typing import Any, Protocol

from benchmarks import workloads
from benchmarks.peers import answer

WARM_UP_ROUNDS = 2


class Loop(Protocol):
    """A round processes all of the loop's records and says how many they are."""

    def round(self) -> int: ...

    def is_right(self, rounds: int) -> bool: ...


Build = Callable[[int], Loop]
"""Makes the loop of one process; it is given the number of the process."""


@dataclass(frozen=True)
class Pace:
    """What one process did, from when on and for how long."""

    records: int
    seconds: float
    began_at: float
    is_right: bool


def measure(build: Build, process: int, seconds: float, start: Barrier) -> Pace:
    loop = build(process)
    for _ in range(WARM_UP_ROUNDS):
        loop.round()
    start.wait()
    records, rounds, began_at, began = 0, WARM_UP_ROUNDS, time.time(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        records += loop.round()
        rounds += 1
    return Pace(records, time.perf_counter() - began, began_at, loop.is_right(rounds))


def _in_process(build: Build, process: int, seconds: float, start: Barrier, told: Any) -> None:
    told.send(measure(build, process, seconds, start))


def _paces(build: Build, seconds: float, count: int) -> list[Pace]:
    """What each of so many processes did. One that ends without a word ends them all."""
    context = multiprocessing.get_context("spawn")
    start, ends = context.Barrier(count), list[Any]()
    for number in range(count):
        heard, told = context.Pipe(duplex=False)
        # Those that wait for the others at the barrier are ended with this process.
        context.Process(
            target=_in_process, args=(build, number, seconds, start, told), daemon=True
        ).start()
        told.close()
        ends.append(heard)
    found: list[Pace] = []
    while len(found) < count:
        for heard in wait(ends):
            ends.remove(heard)
            found.append(_heard(heard))
    return found


def _heard(end: Any) -> Pace:
    try:
        pace: Pace = end.recv()
    except EOFError as error:
        raise SystemExit("a process of the loop ended without a result") from error
    return pace


def run(
    system: str, asked: answer.Request, build: Build, note: str, processes: int | None = None
) -> None:
    """Measure a loop in so many processes (as many as there are cores for all) and answer."""
    count = workloads.PARALLELISM if processes is None else processes
    found = _paces(build, asked.seconds, count)
    answer.say(
        system,
        asked,
        answer.Window(
            sum(pace.records for pace in found),
            max(pace.seconds for pace in found),
            min(pace.began_at for pace in found),
        ),
        records_per_s=sum(pace.records / pace.seconds for pace in found),
        verified=all(pace.is_right for pace in found),
        note=note,
    )
