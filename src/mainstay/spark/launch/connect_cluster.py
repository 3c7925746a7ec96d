"""The cluster behind a session of Spark Connect: a server that is asked over the network.

This process is no driver of Spark's. It has the coordinator all the same, so executors must be able
to open connections to it, and Spark does not know its address. Nor does a server tell how many
slots it has: scouts find that out.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from mainstay.errors import SparkSetupError
from mainstay.spark.launch.own_address import own_address
from mainstay.spark.launch.package import packed
from mainstay.spark.launch.scouts import send_scouts
from mainstay.spark.launch.settings import require_settings
from mainstay.spark.launch.slots import Slots
from mainstay.spark.launch.tasks import Main, run_tasks, run_together

INTERRUPT_S = 0.5
"""How often what is to be cancelled is interrupted: only what has begun can be."""
_SESSION_IS_GONE = ("SESSION_CHANGED", "SESSION_CLOSED", "SESSION_NOT_FOUND")


class ConnectCluster:
    """Asks the server, by what every client of it may ask."""

    is_local = False
    workers_python = None

    def __init__(self, session: Any, coordinator_host: str | None = None) -> None:
        self.session = session
        if session.is_stopped:
            raise SparkSetupError("this Spark session was stopped. Start another one.")
        self._server = str(session.client.host).strip("[]")
        self._told_host = coordinator_host
        self._has_lost_session = False
        self._tags = _Tags(session)

    @cached_property
    def application(self) -> str:
        return self.setting("spark.app.id") or str(self.session.session_id)

    @cached_property
    def host(self) -> str:
        return self._told_host or own_address(self._server)

    def setting(self, name: str, default: str | None = None) -> str | None:
        found = self.session.conf.get(name, default)
        return None if found is None else str(found)

    def is_stopped(self) -> bool:
        return bool(self.session.is_stopped) or self._has_lost_session

    def slots(self) -> Slots | None:
        return None

    def parallelism(self) -> int | None:
        return None

    # ------------------------------------------------------------ what it must be

    def check(self, workers: int, more_slots: int = 0) -> None:
        require_settings(self.setting)
        self.prepare()
        send_scouts(self, workers + more_slots, self._way())

    def check_rescale(self, workers: int, running: int) -> None:
        if workers > running:
            send_scouts(self, workers - running, self._way())

    def _way(self) -> str:
        """How the address was chosen, for the case that it is a wrong one."""
        if self._told_host is not None:
            return f"coordinator_host={self.host!r}"
        return f"that of this machine on the way to the Connect server {self._server!r}"

    def prepare(self) -> None:
        """Files are those of a session, and one that is there is not sent again."""
        with tempfile.TemporaryDirectory(prefix="mainstay-") as folder:
            self.session.addArtifacts(str(packed(Path(folder))), pyfile=True)

    # ------------------------------------------------------------ running

    def run(self, main: Main, tasks: int, columns: str, tag: str, description: str) -> list[Any]:
        with self.tagged(tag, description):
            return run_tasks(self.session, main, tasks, columns)

    def run_barrier(self, main: Main, workers: int, tag: str, description: str) -> None:
        with self.tagged(tag, description):
            run_together(self.session, main, workers)

    @contextmanager
    def tagged(self, tag: str, description: str) -> Iterator[None]:
        try:
            with self._tags.within(tag):
                yield
        except Exception as error:
            if any(name in str(error) for name in _SESSION_IS_GONE):
                self._has_lost_session = True
            raise

    def leave(self, host: str) -> list[str]:
        raise SparkSetupError(
            "a Spark Connect server cannot be told of lost hosts. It notices by itself, after "
            "spark.worker.timeout of a standalone master or spark.network.timeout"
        )

    def cancel(self, tag: str) -> None:
        self._tags.cancel(tag)


class _Tags:
    """What runs under tags, and which of them were cancelled.

    The server interrupts only what it has begun with. So what has not been submitted yet is refused
    here, and what has been submitted is interrupted until it has ended.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._running: dict[str, threading.Event] = {}
        self._cancelled: set[str] = set()

    @contextmanager
    def within(self, tag: str) -> Iterator[None]:
        ended = threading.Event()
        with self._lock:
            if tag in self._cancelled:
                raise SparkSetupError(f"{tag} was cancelled before it began.")
            self._running[tag] = ended
        self._session.addTag(tag)
        try:
            yield
        finally:
            ended.set()
            with self._lock:
                del self._running[tag]
            self._session.removeTag(tag)

    def cancel(self, tag: str) -> None:
        """From any thread, and without waiting for a server that may be away."""
        with self._lock:
            is_news = tag not in self._cancelled
            self._cancelled.add(tag)
            ended = self._running.get(tag)
        if is_news and ended is not None:
            name = f"mainstay-cancel-{tag}"
            threading.Thread(
                target=self._interrupt, args=(tag, ended), name=name, daemon=True
            ).start()

    def _interrupt(self, tag: str, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self._session.interruptTag(tag)
            except Exception:
                # A server that is away or has lost the session has ended what it ran; who waits
                # for that hears of it in its own call.
                return
            ended.wait(INTERRUPT_S)
