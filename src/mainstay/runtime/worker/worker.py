"""The worker: subtask *i* of every task, driven by one thread that never waits.

``receive`` takes a message, ``step`` does a little of everything there is to do. Downstream
tasks come first, so that what is under way is finished before more is begun; sources come last
and only while their outputs have room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from mainstay.errors import MainstayError, SinkError, SourceError, named
from mainstay.runtime.deployment import Deployment, RestoredState
from mainstay.runtime.messages import (
    AbortEpoch,
    Ask,
    AssignSplits,
    Credit,
    Data,
    Drain,
    EndLoops,
    EpochComplete,
    Overtake,
    Overtaken,
    Ready,
    Release,
    Released,
    SinkCommitted,
    Trigger,
)
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.worker.assembly import Assembler
from mainstay.runtime.worker.member import Member
from mainstay.runtime.worker.questions import Questions
from mainstay.runtime.worker.reports import WorkerMetrics
from mainstay.runtime.worker.routing import Router
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.runtime.worker.task import Task
from mainstay.state.subtask import Restored


def _nothing() -> bool:
    """Nobody is heard between tasks."""
    return False


def _told(error: Exception) -> str:
    """An error of closing as it is shown, with its frames where it does not say them itself."""
    frames = error.user_traceback if isinstance(error, SourceError | SinkError) else ""
    text = str(error) if isinstance(error, MainstayError) else named(error)
    return f"{text}\n{frames}".rstrip()


class Worker:
    """One worker of one attempt."""

    def __init__(self, deployment: Deployment, number: int, ports: Ports) -> None:
        self.attempt = deployment.attempt
        self.number = number
        self.released = False
        self._ports = ports
        self._deployment = deployment
        self._failure: Exception | None = None
        self.router = Router(number, deployment.attempt, ports)
        self._assembler = Assembler(
            deployment.job,
            deployment.attempt,
            deployment.lineage,
            deployment.since,
            deployment.retain,
            number,
            ports,
            deployment.tuning,
            self.router,
            SharedFiles(ports, deployment.attempt, number),
            self._fail,
        )
        self.tasks = [
            self._assembler.build(spec)
            for spec in reversed(deployment.job.tasks)
            if number < spec.parallelism
        ]
        self.by_uid = {member.uid: member for task in self.tasks for member in task.members}
        self._task_of = {member.uid: task for task in self.tasks for member in task.members}
        self._close_loops()
        if deployment.is_held:
            for task in self.tasks:
                task.input.hold()
        self._applying: deque[Iterator[None]] = deque()
        self._reading = 0
        self._is_ready = False
        self._questions = Questions(number, self.by_uid, ports)
        self._metrics = WorkerMetrics(ports, deployment.attempt, number)
        self._flushed_at = ports.clock.monotonic()
        self._restore()

    def _close_loops(self) -> None:
        """Join the tails of loops to their heads, which are on this worker too."""
        for member in self.by_uid.values():
            if member.spec.loop is not None:
                member.operator.join_loop(self.by_uid[member.spec.loop.head].operator)

    # ------------------------------------------------------------ restore

    def _restore(self) -> None:
        """Start reading what every operator is restored from; ``step`` applies it."""
        restored = self._deployment.restored
        for member in self.by_uid.values():
            state = restored.get((member.uid, self.number))
            if state is None:
                continue
            member.restore_units(state.units)
            if member.is_read_from(state):
                self._read(member, state)
        self._become_ready()

    def _read(self, member: Member, state: RestoredState) -> None:
        """Read a state, once the files of its databases are on this host, if they are to be."""
        self._reading += 1
        fetches = self._fetches(state)
        left = len(fetches)

        def came(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._read_here(member, state)

        for fetch in fetches:
            self._ports.background.submit(fetch, came, came)
        if not fetches:
            self._read_here(member, state)

    def _fetches(self, state: RestoredState) -> list[Callable[[], None]]:
        files = self._ports.state_files
        if files is None or state.origin is not None:
            return []
        return files.fetches(file for segment in state.chain for file in segment.parts)

    def _read_here(self, member: Member, state: RestoredState) -> None:
        storage, open_place = self._ports.storage, self._ports.open

        def work() -> Restored:
            origin = storage if state.origin is None else open_place(state.origin)
            return member.read(storage, state, origin)

        def done(read: Restored) -> None:
            self._reading -= 1
            assert member.keyed is not None
            self._applying.append(member.keyed.apply(read))

        self._ports.background.submit(work, done, self._fail)

    def _apply_slice(self) -> None:
        for _ in self._applying[0]:
            return
        self._applying.popleft()
        self._become_ready()

    def _become_ready(self) -> None:
        if self._reading or self._applying or self._is_ready:
            return
        for task in self.tasks:
            self._assembler.replay(task, self._deployment.restored)
            self._assembler.open(task)
            task.opened()
        self._is_ready = True
        files = self._ports.state_files
        read = (0, 0) if files is None else files.read_bytes()
        self._ports.send(COORDINATOR, Ready(self.attempt, self.number, *read))

    # ------------------------------------------------------------ the loop

    def step(self, hear: Callable[[], bool] = _nothing) -> bool:
        """Do a little; False when nothing can be done before a message or a deadline.

        ``hear`` is called between tasks, may bring messages of the coordinator, and says whether
        it has: so a question waits for one slice of rows, and not for one of every task. Raises
        what ended the worker: an error of user code, a damaged file, a broken rule.
        """
        if self.released:
            return False
        if self._failure is not None:
            raise self._failure
        if self._applying:
            self._apply_slice()
            return True
        if not self._is_ready:
            return False
        self._metrics.report(self.tasks)
        progressed = self._questions.are_waiting
        for task in self.tasks:
            # A task that was stepped before may have something to do again.
            progressed = hear() or progressed
            if self._is_over():
                return False
            if self._questions.are_waiting:
                self._questions.step()
            progressed = task.step() or progressed
        is_pressed = progressed and any(task.is_pressed for task in self.tasks)
        return self._flush(idle=not is_pressed) or progressed

    def _is_over(self) -> bool:
        return self.released

    def _flush(self, *, idle: bool) -> bool:
        now = self._ports.clock.monotonic()
        if not idle and now - self._flushed_at < self._deployment.tuning.flush_s:
            return False
        self._flushed_at = now
        return sum(task.chain.flush(idle=idle) for task in self.tasks) > 0

    def deadline(self) -> float | None:
        """When something will have to be done even if no message arrives."""
        if self.released or not self._is_ready:
            return None
        times = [task.deadline() for task in self.tasks]
        return min((time for time in times if time is not None), default=None)

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error

    # ------------------------------------------------------------ messages

    def receive(self, message: Any) -> None:
        """Take a message; those of other attempts are refused, and all after the release."""
        if message.attempt != self.attempt or self.released:
            return
        match message:
            case Data() | Credit() | Overtaken():
                self.router.receive(message)
            case Trigger(_, epoch, is_last):
                # So that what is known at the end of a job is known of all of it.
                self._metrics.hurry()
                for task in self.tasks:
                    task.on_trigger(epoch, is_last=is_last)
            case Overtake(_, epoch):
                for task in self.tasks:
                    task.on_overtake(epoch)
            case Drain():
                for task in self.tasks:
                    task.input.drain()
            case EndLoops():
                for task in self.tasks:
                    task.input.end_loop()
            case AbortEpoch(_, epoch):
                for task in self.tasks:
                    task.on_abort(epoch)
            case EpochComplete(_, epoch, saved):
                for task in self.tasks:
                    task.on_complete(epoch, saved)
            case SinkCommitted(_, uid, epoch):
                if uid in self.by_uid:
                    self.by_uid[uid].operator.on_committed(epoch)
            case AssignSplits(_, uid, _, splits, last):
                self._task_of[uid].input.assign(splits, last=last)
            case Ask():
                self._questions.ask(message)
            case Release(_, in_good_order):
                self._release(in_good_order=in_good_order)

    def _release(self, *, in_good_order: bool) -> None:
        if self.released:
            return
        self.released = True
        # Functions that were never opened are not closed either.
        in_good_order = in_good_order and self._is_ready
        raised = [e for task in self.tasks for e in task.close(in_good_order=in_good_order)]
        if in_good_order:
            trouble = "\n".join(_told(error) for error in raised)
            self._ports.send(COORDINATOR, Released(self.attempt, self.number, trouble))

    def check_invariants(self) -> None:
        for task in self.tasks:
            task.check_invariants()

    def task(self, id: str) -> Task:
        return next(task for task in self.tasks if task.spec.id == id)
