"""Clients that ask the jobs all the time, live and committed, over HTTP and by the snapshots."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import mainstay as ms
from mainstay.errors import MainstayError
from tests.together.answers import AnswerBook, Told
from tests.together.generator import KEYS
from tests.together.jobs import Incarnation, TogetherJob

PAUSE_S = 0.8
TIMEOUT_S = 10.0


class Clients:
    """Threads; each asks about random keys of random jobs until it is stopped."""

    def __init__(
        self, jobs: Sequence[TogetherJob], books: dict[str, AnswerBook], seed: int
    ) -> None:
        self._jobs = jobs
        self._books = books
        self._seed = seed
        self._started = 0
        self._running: list[tuple[threading.Thread, threading.Event]] = []
        self.findings: list[str] = []

    def start(self) -> None:
        self._started += 1
        ended = threading.Event()
        arguments = (self._started, ended)
        thread = threading.Thread(target=self._ask_on, args=arguments, daemon=True)
        self._running.append((thread, ended))
        thread.start()

    def stop_one(self) -> None:
        """One at least goes on."""
        if len(self._running) > 1:
            thread, ended = self._running.pop(0)
            ended.set()
            thread.join()

    def end(self) -> None:
        for _, ended in self._running:
            ended.set()
        for thread, _ in self._running:
            thread.join()

    def _ask_on(self, client: int, ended: threading.Event) -> None:
        rng = random.Random(f"client {self._seed} {client}")
        while not ended.wait(PAUSE_S):
            job = rng.choice(self._jobs)
            level = rng.choice(("live", "committed", "stored"))
            try:
                self._ask(client, job, level, rng.randrange(KEYS))
            except (MainstayError, TimeoutError, OSError) as error:
                of = "live" if level == "live" else "committed"
                self._books[job.name].refuse(of, f"{type(error).__name__}: {error}")
            except Exception as error:
                self.findings.append(f"a client was told {error!r} by {job.name} ({level})")

    def _ask(self, client: int, job: TogetherJob, level: str, key: int) -> None:
        now = job.current
        before = self._books[job.name].before(now.number, key)
        states = [f"{job.operator}.seen", f"{job.operator}.{SECOND[job.name]}"]
        if level == "stored":
            connection: Any = ms.connect(now.snapshots)
            found = connection.query_states(states, key=key)
        else:
            urls = [driver.url for driver in list(job.drivers) if driver.url]
            found = _first(urls, states, key, level)
        seen, second = (found[state].value for state in states)
        self._take(job, now, client, found[states[0]].moment, key, seen, second, before)

    def _take(
        self, job: TogetherJob, now: Incarnation, client: int, moment: Any, key: int, *values: Any
    ) -> None:
        seen, second, before = values
        if moment.job != now.name or seen is None:
            return  # the job has gone on elsewhere, or knows nothing of the key yet
        book = self._books[job.name]
        if job.name == "accounts" and second != 2 * seen:
            book.differences.append(f"{moment}: {seen} rows of key {key}, and twice is {second}")
        told = Told(
            client,
            now.number,
            moment.level,
            moment.epoch,
            moment.attempt,
            key,
            seen,
            second if job.name == "orders" else None,
            dict(moment.position.get("events", {})),
            before,
        )
        book.take(told)


SECOND = {"orders": "last", "accounts": "twice"}
"""A state that is of the same moment as ``seen``."""


def _first(urls: Sequence[str], states: list[str], key: int, level: str) -> Any:
    """The first answer of several drivers."""
    why: Exception = TimeoutError("no driver can be asked")
    for url in urls:
        try:
            connection: Any = ms.connect(url)
            return connection.query_states(states, key=key, at=level, timeout=TIMEOUT_S)
        except (MainstayError, TimeoutError) as error:
            why = error
    raise why
