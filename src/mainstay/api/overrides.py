"""Settings of who runs a program, which come before those that the program gives.

``mainstay run`` sets them before the program is run, for every ``Environment`` that it makes. They
are those of the process and not of a thread, because a program may make its environment in any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mainstay.api.options import Snapshots
from mainstay.api.ui import Ui, ui_of
from mainstay.errors import GraphError


class _Processes:
    """In the place of a Spark session: workers as plain processes of this machine."""

    def __repr__(self) -> str:
        return "'processes'"


PROCESSES = _Processes()
WITHOUT_SPARK = {"embedded": "embedded", "processes": PROCESSES}
"""Masters that are none of Spark."""


class Given(NamedTuple):
    """What an ``Environment`` was given, as far as it can be overridden."""

    spark: Any
    parallelism: Any
    snapshots: Any
    restore: Any
    ui: Any


@dataclass(frozen=True, slots=True)
class Overrides:
    """What is None is left to the program. ``ui`` is for jobs whose program asks for no page."""

    master: str | None = None
    parallelism: int | None = None
    snapshots: str | None = None
    restore: str | int | None = None
    name: str | None = None
    ui: bool | None = None
    port: int | None = None
    started: Callable[[Any, Any], None] = field(default=lambda env, job: None)
    """Called with the environment and the job when one was started."""

    def shown(self) -> str:
        """What was set, as in a call."""
        names = ("master", "parallelism", "snapshots", "restore", "name", "port")
        found = {name: getattr(self, name) for name in names}
        return ", ".join(f"{name}={value!r}" for name, value in found.items() if value is not None)

    @property
    def spark_master(self) -> str | None:
        """Where a session of the job's own is to run."""
        return None if self.master in WITHOUT_SPARK else self.master

    def applied(self, given: Given) -> Given:
        """What an environment is to have."""
        return Given(
            self._spark(given.spark),
            given.parallelism if self.parallelism is None else self.parallelism,
            self._snapshots(given.snapshots),
            given.restore if self.restore is None else self.restore,
            self._ui(given.ui),
        )

    def _spark(self, given: Any) -> Any:
        if self.master is None:
            return given
        if self.master in WITHOUT_SPARK:
            return WITHOUT_SPARK[self.master]
        if given is None or isinstance(given, str):
            return None
        master = _master_of(given)
        if master != _without_port(self.master):
            raise GraphError(
                f"--master {self.master}: the program has a session of its own, at {master}. Leave "
                "the master out of the program's builder, or --master out of the command."
            )
        return given

    def _snapshots(self, given: Any) -> Any:
        if self.snapshots is None:
            return given
        is_given = isinstance(given, Snapshots)
        return replace(given, dir=self.snapshots) if is_given else Snapshots(self.snapshots)

    def _ui(self, given: Any) -> Any:
        if self.ui is False:
            return None
        ui = ui_of(given) or (Ui() if self.ui else None)
        return ui if ui is None or self.port is None else replace(ui, port=self.port)


_current = Overrides()


def current() -> Overrides:
    """Those that hold now; of a program that is run by itself, none."""
    return _current


def _master_of(session: Any) -> str:
    """A session of Spark Connect has no context, only a server, of which it tells the host."""
    client = getattr(session, "client", None)
    return f"sc://{client.host}" if client is not None else str(session.sparkContext.master)


def _without_port(master: str) -> str:
    """Of the address of a Spark Connect server what a session tells of it."""
    if not master.startswith("sc://"):
        return master
    host = urlsplit(master).hostname or ""
    return f"sc://[{host}]" if ":" in host else f"sc://{host}"


def overridden(given: Given) -> Given:
    return _current.applied(given)


@contextmanager
def overriding(overrides: Overrides) -> Iterator[None]:
    """Inside, environments take these."""
    global _current
    before, _current = _current, overrides
    try:
        yield
    finally:
        _current = before


def restore_of(text: str) -> str | int:
    """What ``--restore`` says: an epoch by its number, a word, or the place of a savepoint."""
    if text.isdigit():
        return int(text)
    # A folder needs no slash here: words are told from it by being known.
    return f".{os.sep}{text}" if os.path.isdir(text) and os.sep not in text else text
