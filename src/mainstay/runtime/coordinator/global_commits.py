"""What the coordinator does for sinks: commits that are one act for the whole job, and recovery.

The handles travel with the acknowledgements and are in the manifest. Once an epoch is in the log,
its handles are committed, oldest epoch first and one epoch at a time; then the subtasks are
notified, and forget them. A failed commit is tried again until it works: whether it was done is
unknown, and doing it again is always right. After a recovery the restored manifest's handles are
committed before any others. Every sink, global or not, learns once per attempt what the restored
epoch holds, so that it can undo everything else. A leader that doubts whether it leads has nothing
committed or recovered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mainstay.errors import MainstayError, SinkError
from mainstay.runtime.connector import Sink, SinkRecovery
from mainstay.runtime.connector_errors import of_connector
from mainstay.runtime.messages import Attempt, Epoch, SinkCommitted
from mainstay.runtime.own_states import HANDLES
from mainstay.runtime.ports import Ports
from mainstay.runtime.retry import Retry, may_heal
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import Problem
from mainstay.snapshot.manifest import Manifest
from mainstay.state.operator import values_in


@dataclass(frozen=True, slots=True)
class _Due:
    """An epoch in the log whose handles are to be committed, and the recovery of an attempt."""

    epoch: Epoch
    handles: list[bytes]
    recovery: SinkRecovery | None = None

    @property
    def missing(self) -> str:
        """What has not been done while this is not done."""
        return f"has not confirmed epoch {self.epoch}" if self.handles else "was not recovered"


@dataclass(slots=True, eq=False)
class _Queue:
    """What is to be done for one sink, in this order."""

    sink: Sink
    waiting: deque[_Due] = field(default_factory=deque)
    is_busy: bool = False
    retry: Retry = field(default_factory=Retry)


class GlobalCommits:
    """The sinks of one attempt, as far as the coordinator is concerned with them."""

    def __init__(
        self,
        job: JobSpec,
        attempt: Attempt,
        lineage: str,
        ports: Ports,
        tell: Callable[[Any], None],
        failed: Callable[[Exception], None],
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_held = is_held
        self._attempt = attempt
        self._lineage = lineage
        self._ports = ports
        self._tell = tell
        self._failed = failed
        self._queues = {
            operator.uid: _Queue(operator.sink)
            for _, operator in job.operators()
            if operator.sink is not None
        }

    def start(self, restored: Manifest | None) -> None:
        """Commit what the restored manifest names, and have every sink recover."""
        for uid, queue in self._queues.items():
            epoch = Epoch(restored.epoch) if restored is not None else Epoch(0)
            handles = handles_of(restored, uid) if restored is not None else []
            recovery = SinkRecovery(uid, self._lineage, self._attempt, tuple(handles))
            due = handles if queue.sink.is_global else []
            queue.waiting.append(_Due(epoch, due, recovery))
            self._commit_next(uid, queue)

    def epoch_complete(self, manifest: Manifest) -> None:
        for uid, queue in self._queues.items():
            if queue.sink.is_global:
                queue.waiting.append(_Due(Epoch(manifest.epoch), handles_of(manifest, uid)))
                self._commit_next(uid, queue)

    def _commit_next(self, uid: str, queue: _Queue) -> None:
        is_free = not queue.is_busy and not queue.retry.is_waiting
        if not is_free or not queue.waiting or self._is_held():
            return
        queue.is_busy = True
        queue.retry.began(self._ports.clock.monotonic())
        due, sink, attempt = queue.waiting[0], queue.sink, self._attempt
        doing = "committed"

        def work() -> None:
            nonlocal doing
            # All of it in one act: a part of it would show a cut that never was.
            if due.handles:
                sink.commit_epoch(due.epoch, due.handles)
            if due.recovery is not None:
                doing = "recovered"
                sink.recover(due.recovery)

        def done(_: Any) -> None:
            queue.is_busy = False
            queue.retry.succeeded()
            queue.waiting.popleft()
            if sink.is_global:
                self._tell(SinkCommitted(attempt, uid, due.epoch))
            self._commit_next(uid, queue)

        def failed(error: Exception) -> None:
            queue.is_busy = False
            queue.retry.failed(self._ports.clock.monotonic(), error)
            if not may_heal(error):
                self._failed(_named(error, uid, doing))

        self._ports.background.submit(work, done, failed)

    def problems(self, now: float) -> list[Problem]:
        """The sinks that do not confirm."""
        found = [
            queue.retry.problem(f"sink {uid!r}", queue.waiting[0].missing, now)
            for uid, queue in self._queues.items()
            if queue.waiting
        ]
        return [problem for problem in found if problem is not None]

    def tick(self, now: float) -> None:
        for uid, queue in self._queues.items():
            if not self._is_held() and (queue.retry.is_due(now) or not queue.retry.is_waiting):
                self._commit_next(uid, queue)

    def deadline(self) -> float | None:
        if self._is_held():
            return None
        times = (queue.retry.at for queue in self._queues.values())
        return min((time for time in times if time is not None), default=None)


def handles_of(manifest: Manifest, uid: str) -> list[bytes]:
    """The handles that a manifest holds for a sink, in the order of epochs and subtasks."""
    stored = manifest.operators.get(uid)
    groups: dict[int, list[bytes]] = {}
    for subtask in stored.subtasks if stored is not None else ():
        units = subtask.units.get(HANDLES.name)
        if units is None:
            continue
        for prepared in values_in(HANDLES, units):
            groups.setdefault(prepared.epoch, []).append(prepared.handle)
    return [handle for epoch in sorted(groups) for handle in groups[epoch]]


def _named(error: Exception, uid: str, doing: str) -> Exception:
    """A connector's own error says what it is of; any other does not."""
    if isinstance(error, MainstayError):
        return error
    broken = of_connector(SinkError, f"sink {uid!r} cannot be {doing}", error, uid)
    broken.is_final = True
    return broken
