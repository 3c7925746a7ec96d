"""A launcher for a job that most likely has nothing to do: Spark is started only if it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstay.drive.remote_job import Launcher
from mainstay.drive.remote_worker import Bootstrap
from mainstay.runtime.coordinator.silence import LostHost
from mainstay.transport.address import LOOPBACK


class DeferredLauncher:
    """Makes the real launcher, and with it a session on this machine, for the first attempt."""

    host = LOOPBACK
    shares_terminal = True

    def __init__(self, make: Callable[[], Launcher]) -> None:
        self._make = make
        self._launcher: Launcher | None = None

    def start(self, bootstrap: Bootstrap, workers: int, ended: Callable[[str], None]) -> None:
        if self._launcher is None:
            self._launcher = self._make()
        self._launcher.start(bootstrap, workers, ended)

    def leave(self, hosts: Sequence[LostHost]) -> None:
        if self._launcher is not None:
            self._launcher.leave(hosts)

    @property
    def counts_room(self) -> bool:
        return self._launcher is not None and self._launcher.counts_room

    def room(self) -> int | None:
        return None if self._launcher is None else self._launcher.room()

    def stop(self, attempt: int) -> None:
        if self._launcher is not None:
            self._launcher.stop(attempt)

    def gone(self) -> Exception | None:
        return None if self._launcher is None else self._launcher.gone()

    def close(self) -> None:
        if self._launcher is not None:
            self._launcher.close()
