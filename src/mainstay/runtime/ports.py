"""The three things the core sees of the world: time, messages, and work in the background.

A *drive* provides them. On a real machine they are a clock, sockets and a thread pool; in the
simulation they are values under a seeded scheduler. Nothing else in the runtime touches the
outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from mainstay.errors import SnapshotStorageError
from mainstay.runtime.compiled.kernels import Kernels
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.storage import Storage

COORDINATOR = -1
"""The address of the coordinator; workers have the numbers from zero on."""


class Clock(Protocol):
    """Time in seconds."""

    def monotonic(self) -> float:
        """Never goes back; only differences mean something."""

    def wall(self) -> float:
        """Seconds since 1970, for records that people read."""

    def cpu(self) -> float:
        """How long the calling thread has computed; only differences mean something."""


class Background(Protocol):
    """Work that may block or take long, done in the background."""

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run ``work`` elsewhere; then call ``done`` or ``failed`` on the loop of the submitter.

        Neither is called when the submitter has ended by then. ``work`` must not touch anything
        that the loop changes.
        """


class Calls(Protocol):
    """Calls of an author's function that wait for something outside, many at a time."""

    def call(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        *,
        is_async: bool,
    ) -> Callable[[], None]:
        """Call ``work`` elsewhere, and wait for what it gives if that is to be awaited; then call
        ``done`` or ``failed`` on the loop of the submitter, as ``Background`` does.

        ``is_async`` says that the call itself does not block. What is returned gives the call up:
        neither is called then.
        """


class StateFiles(Protocol):
    """What a worker is told of, and tells, about the files that its state is in."""

    def read_bytes(self) -> tuple[int, int]:
        """What was read of state files so far: from this host, and from the storage."""

    def named(self, owner: str, paths: Iterable[str]) -> None:
        """The files that the epochs of a subtask build on from now on."""

    def fetches(self, files: Iterable[FileRef]) -> list[Callable[[], None]]:
        """What brings files to this host, side by side, before they are read one by one.

        Each is for the background. None of it is needed: a file that did not come is read from the
        storage, and whatever is wrong with it is said then.
        """


Open = Callable[[str], Storage]
"""Open the storage at a place other than the job's own: that of a savepoint."""


def nowhere(place: str) -> Storage:
    """The default ``open``: this drive reaches no storage but the job's own."""
    raise SnapshotStorageError(f"cannot open {place!r}: this drive has the job's storage only.")


def one_thread() -> int:
    """The default ``caller``: this drive has a single thread."""
    return 0


Send = Callable[[int, Any], None]
"""Send a message to a worker or the coordinator: in order per pair, at most once."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a worker or a coordinator is given of the world."""

    clock: Clock
    background: Background
    send: Send
    storage: Storage
    open: Open = nowhere
    caller: Callable[[], int] = one_thread
    """Which thread this is called in, as a number: functions of a job may start others."""
    calls: Calls | None = None
    """None where no function of an author runs."""
    state_files: StateFiles | None = None
    """None where nobody counts or copies them."""
    kernels: Kernels | None = None
    """What makes machine code of compiled functions; without it they are interpreted."""
