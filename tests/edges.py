"""Crashes at the named edges of a sink's commit, each once, on any drive.

::

    sink = Crashing(PostgresSink(...), "between_slot_and_commit", tmp_path / "crashed")
    job = start(lambda env: env.source(Ids(2_000, 1_000.0), uid="ids").sink(sink, uid="out"),
                tmp_path, drive="embedded")
    assert job.wait(PATIENCE_S) == "finished"
    assert sink.has_crashed and len(job.attempts()) == 2

A file says that the crash has happened, so it happens in one attempt only, whatever process comes
by first. On the processes drive a worker can be killed outright (``kill=True``); otherwise an
error ends the attempt, and what it was doing lives on for a while, as zombies do.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

import mainstay as ms
from mainstay.connectors import Sink, SinkContext, SinkRecovery, SinkWriter
from mainstay.drive.embedded import EmbeddedJob
from mainstay.drive.handle import JobHandle
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import RemoteJob
from mainstay.errors import MainstayError
from mainstay.runtime.options import JobOptions, RestartOptions, RestoreOptions, SnapshotOptions
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import await_attempt, await_until

CRASH_POINTS = (
    "before_pre_commit",
    "between_pre_commit_and_slot",
    "between_slot_and_commit",
    "during_commit",
    "after_commit_before_confirmation",
)
WRITE_POINTS = ("before_write", "after_write")
"""For sinks that write rows as they come, and have nothing to commit."""


class CrashError(MainstayError):
    """The attempt ends here, because a test wants it to."""


class Fuse:
    """Burns once in all processes that share its file: at the given visit of its point."""

    def __init__(
        self,
        point: str,
        marker: Path | str,
        *,
        kill: bool,
        visit: int,
        observe: Callable[[], Any] | None = None,
    ) -> None:
        assert point in (*CRASH_POINTS, *WRITE_POINTS), f"there is no crash point {point!r}"
        self.point = point
        self.marker = str(marker)
        self.kill = kill
        self.visit = visit
        self.observe = observe
        self._visits = 0

    @property
    def has_burnt(self) -> bool:
        return os.path.exists(self.marker)

    def pass_by(self, point: str, *, may_kill: bool = True) -> None:
        """Crash if this is the point, it has been visited often enough, and nobody else has."""
        if point != self.point:
            return
        self._visits += 1
        if self._visits < self.visit or not self._is_first():
            return
        if self.observe is not None:
            Path(self.marker).write_text(json.dumps(self.observe()))
        if self.kill and may_kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise CrashError(f"a test crashes this attempt {point}")

    def _is_first(self) -> bool:
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Crashing(Sink):
    """A sink that crashes at a point, by default when it comes by there for the second time.

    ``during_commit`` is between two handles of one commit; for that the commit is refused until
    there are two, so every subtask needs rows in at least two epochs. Where a commit has steps of
    its own, ``within`` names one ("package.module:Class.method"), and the crash comes after it;
    a global sink needs that. The commit of a global sink runs where the test runs, so it raises
    even with ``kill``. What ``observe`` gives right before the crash is in ``observed``: for what
    readers of the target see at that moment. It has to be JSON.
    """

    def __init__(
        self,
        inner: Sink,
        point: str,
        marker: Path | str,
        *,
        kill: bool = False,
        visit: int = 2,
        within: str | None = None,
        observe: Callable[[], Any] | None = None,
    ) -> None:
        assert within is not None or point != "during_commit" or not inner.is_global, (
            "say within= for a global sink: its commit has no middle that others know of"
        )
        self.inner = inner
        self.is_global = inner.is_global
        is_between_handles = point == "during_commit" and within is None
        visit = 1 if is_between_handles else visit
        self.fuse = Fuse(point, marker, kill=kill, visit=visit, observe=observe)
        self.within = within

    @property
    def has_crashed(self) -> bool:
        return self.fuse.has_burnt

    @property
    def observed(self) -> Any:
        return json.loads(Path(self.fuse.marker).read_text())

    def open(self, context: SinkContext) -> SinkWriter:
        return _CrashingWriter(self.inner.open(context), self.fuse)

    def recover(self, recovery: SinkRecovery) -> None:
        self.inner.recover(recovery)

    def commit(self, handles: Sequence[bytes]) -> None:
        self.fuse.pass_by("between_slot_and_commit")
        if self.fuse.point == "during_commit" and self.within is None:
            self._commit_in_two(handles)
        else:
            self._commit_with_a_step(lambda: self.inner.commit(handles), may_kill=True)
        self.fuse.pass_by("after_commit_before_confirmation")

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        self.fuse.pass_by("between_slot_and_commit", may_kill=False)
        self._commit_with_a_step(lambda: self.inner.commit_epoch(epoch, handles), may_kill=False)
        self.fuse.pass_by("after_commit_before_confirmation", may_kill=False)

    def _commit_in_two(self, handles: Sequence[bytes]) -> None:
        if self.fuse.has_burnt:
            self.inner.commit(handles)
            return
        if len(handles) < 2:
            raise ConnectionError("a test wants two handles in one commit")
        self.inner.commit(handles[:1])
        self.fuse.pass_by("during_commit")
        self.inner.commit(handles[1:])

    def _commit_with_a_step(self, commit: Callable[[], None], *, may_kill: bool) -> None:
        if self.within is None or self.fuse.point != "during_commit":
            commit()
            return
        owner, name = _found(self.within)
        step = getattr(owner, name)

        def interrupted(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            self.fuse.pass_by("during_commit", may_kill=may_kill)
            return result

        with mock.patch.object(owner, name, interrupted):
            commit()


class _CrashingWriter(SinkWriter):
    def __init__(self, inner: SinkWriter, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse
        self._has_rows = False

    def write(self, batch: pa.RecordBatch) -> Callable[[], object] | None:
        self._has_rows = True
        work = self._inner.write(batch)
        if work is None:
            self._between("before_write", "after_write", lambda: None)
            return None
        return lambda: self._between("before_write", "after_write", work)

    def prepare(self, epoch: int) -> bytes | Callable[[], bytes | None] | None:
        had_rows, self._has_rows = self._has_rows, False
        made = self._inner.prepare(epoch)
        if not had_rows:
            return made
        points = ("before_pre_commit", "between_pre_commit_and_slot")
        if callable(made):
            return lambda: self._between(*points, made)
        # What was made is lost with this attempt either way.
        return self._between(*points, lambda: made)  # type: ignore[no-any-return]

    def _between(self, before: str, after: str, work: Callable[[], Any]) -> Any:
        self._fuse.pass_by(before)
        result = work()
        self._fuse.pass_by(after)
        return result

    def close(self) -> None:
        self._inner.close()


def _found(step: str) -> tuple[Any, str]:
    """The object that holds a step, and the step's name in it."""
    module, _, path = step.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def start(
    build: Callable[[ms.Environment], object],
    folder: Path,
    *,
    name: str = "edges",
    drive: str = "embedded",
    parallelism: int = 2,
    every_s: float = 0.2,
    max_failures: int = 5,
    restore: str = "new",
    state: Any = "heap",
) -> JobHandle:
    """Start a job on a drive, in threads ("embedded") or with processes of its own."""
    environment = ms.Environment(parallelism=parallelism, state=state)
    build(environment)
    spec, directory = environment.plan(), str(folder / "snapshots")
    options = JobOptions(
        name,
        name,
        SnapshotOptions(every_s=every_s),
        RestartOptions(max_failures=max_failures, backoff_s=0.05, max_backoff_s=0.2),
        RestoreOptions(restore),
    )
    if drive == "processes":
        return RemoteJob(name, spec, options, directory, ProcessLauncher())
    assert drive == "embedded", f"there is no drive {drive!r}"
    return EmbeddedJob(name, spec, options, open_storage(directory))


# ---------------------------------------------------------------- kills

Moment = Callable[[random.Random], object]
"""Waits for the moment at which a worker is to be killed."""


def kill_workers(job: JobHandle, kills: int, seed: int = 1, moment: Moment | None = None) -> None:
    """Kill one of two workers in each of the first attempts, at any moment if none is given."""
    assert isinstance(job, RemoteJob)
    rng = random.Random(seed)
    for attempt in range(1, kills + 1):
        pids = await_attempt(job, attempt, 2)
        (moment or _any_moment)(rng)
        os.kill(pids[rng.randrange(2)], signal.SIGKILL)
        await_until(lambda attempt=attempt: len(job.attempts()) > attempt, "the attempt has ended")


def _any_moment(rng: random.Random) -> None:
    threading.Event().wait(rng.uniform(0.0, 0.4))  # the moment is the random part


def when_more_is(count: Callable[[], int], what: str) -> Moment:
    """The moment at which there is more than when it is begun to look."""

    def wait(rng: random.Random) -> None:
        before = count()
        await_until(lambda: count() > before, f"more is {what}")

    return wait
