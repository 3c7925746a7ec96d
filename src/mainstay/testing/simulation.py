"""The simulation drive: a whole job in one thread, under a scheduler that a seed decides.

Coordinator and workers are the real ones. The scheduler delivers messages in any order that
keeps each pair's own, runs background work and reports its end at any later time, lets time pass,
crashes workers and coordinators at any step, hands the lead over, and lets the workers of an ended
attempt, and leaders that were replaced, live on beside those that follow. The same seed gives the
same run.

::

    simulation = Simulation(job, options, SimulationSettings(seed=7, crashes=2), storage)
    simulation.run()
    simulation.coordinator.status      # Status.FINISHED
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from threading import get_ident
from typing import Any

import cloudpickle

from mainstay.errors import RAISED, FencedError, named
from mainstay.runtime.compiled.kernels import InterpretedKernels
from mainstay.runtime.coordinator.coordinator import Coordinator
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.succession import Succession
from mainstay.runtime.deployment import Deployment
from mainstay.runtime.messages import Attempt, EpochComplete, WorkerFailed
from mainstay.runtime.options import JobOptions
from mainstay.runtime.ports import COORDINATOR, Ports
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.status import AttemptRecord, EpochStatus
from mainstay.runtime.worker.worker import Worker
from mainstay.snapshot.commitlog import free_slot
from mainstay.snapshot.guarded import GuardedStorage
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.storage import Storage
from mainstay.testing.faults import FaultyStorage
from mainstay.testing.processes import (
    LEADER,
    Address,
    Background,
    Calls,
    Cluster,
    Process,
    SimulatedClock,
    Work,
)
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.user_requests import UserRequests
from mainstay.testing.witness import Suspicious, Witness
from mainstay.tracebacks import reportable


class StuckError(AssertionError):
    """Nothing can happen any more, and the job has not ended: a deadlock."""


class Simulation:
    """One job under one seed."""

    def __init__(
        self,
        job: JobSpec,
        options: JobOptions,
        settings: SimulationSettings,
        storage: Storage,
        clock: SimulatedClock | None = None,
        *,
        places: dict[str, Storage] | None = None,
        plan_at: Callable[[int], JobSpec] | None = None,
        joined: int | None = None,
    ) -> None:
        """``joined`` is the slot that was free when the first leader joined, if it stood by."""
        self.settings = settings
        self.places = {} if places is None else places
        """Storages beside the job's own, by the paths of savepoints."""
        self.failures: list[Exception] = []
        """What workers raised: the job was restarted after each."""
        self.random = Random(settings.seed)
        self.clock = clock or SimulatedClock()
        self.storage = storage
        self.trace: list[str] = []
        self.steps = 0
        self.coordinators: list[Coordinator] = []
        self.works: list[Work] = []
        self.reports: list[tuple[Process, Callable[[], None]]] = []
        self.requests = UserRequests(job, settings, self.places, plan_at, self._note)
        self._options = options
        self.witness = Witness(storage)
        self.violations: list[str] = []
        """What a leader did that it must not do: after it was deposed, or in doubt."""
        self._joined = free_slot(storage) if joined is None else joined
        self._faulty = FaultyStorage(self.witness, self.random, settings.storage_faults)
        self._links: dict[tuple[Address, Address], deque[Any]] = {}
        """What is under way, by sender and receiver. A link with nothing on it is not there."""
        self._processes: dict[Address, Process] = {}
        self._crew: list[Process] | None = None
        """The workers there are; None when that has to be found out again."""
        self._tokens = 0
        horizon = settings.crash_within_steps
        self._crashes = sorted(self.random.randrange(horizon) for _ in range(settings.crashes))
        self._plan_at = plan_at
        self._old_leaders: list[tuple[Process, Coordinator]] = []
        self._lives_on = Random(f"leaders-{settings.seed}")
        self._terms = Random(f"terms-{settings.seed}")
        self._hears = Random(f"hears-{settings.seed}")
        self._elections = sorted(self._terms.randrange(horizon) for _ in range(settings.terms))
        self._rooms = Random(f"room-{settings.seed}")
        changes = sorted(self._rooms.randrange(horizon) for _ in settings.room[1:])
        self._room_changes = list(zip([0, *changes], settings.room, strict=False))
        self._start_leader(succeeds=joined is not None)

    # ------------------------------------------------------------ processes

    def _ports(self, process: Process) -> Ports:
        def send(to: int, message: Any) -> None:
            is_leader = process.coordinator is not None
            if is_leader and isinstance(message, EpochComplete):
                self._check_may_commit(process, message)
            if not process.alive or (is_leader and not self.is_heard(process)):
                return
            receiver = process.leader if to == COORDINATOR else (message.attempt, to)
            self._links.setdefault((process.address, receiver), deque()).append(message)

        storage: Storage = self._faulty
        if process.address[1] == COORDINATOR:
            suspicious = Suspicious(storage, lambda: process.is_replaced, self.violations.append)
            storage = GuardedStorage(suspicious, lambda: not process.is_replaced)
        background = Background(self, process)
        calls = Calls(background)
        kernels = InterpretedKernels()
        ports = Ports(self.clock, background, send, storage, self._open, get_ident, calls)
        return replace(ports, kernels=kernels)

    def is_heard(self, leader: Process) -> bool:
        """Whether a leader can reach workers, and they can reach it."""
        return leader.alive and leader is self.leader

    def _check_may_commit(self, process: Process, message: EpochComplete) -> None:
        if process.is_deposed or process.is_in_doubt:
            why = "it was deposed" if process.is_deposed else "in doubt"
            self.violations.append(f"a leader had epoch {message.epoch} committed, though {why}")

    def _open(self, place: str) -> Storage:
        return self.places.setdefault(place, MemoryStorage())

    def _start_leader(self, *, succeeds: bool = False) -> None:
        self.leader = Process(self._new_address())
        self._processes[self.leader.address] = self.leader
        self.coordinator = Coordinator(
            self.requests.job,
            self._options,
            self._ports(self.leader),
            Cluster(self, self.leader),
            self._token,
            Succession(joined=self._joined if succeeds else None, plan_at=self._plan_at),
        )
        self.leader.coordinator = self.coordinator
        self.coordinators.append(self.coordinator)
        self.coordinator.start()

    def _new_address(self) -> Address:
        """A leader takes the place of the one before it."""
        return LEADER

    def _leaders(self) -> list[Coordinator]:
        """The leaders that are alive and heard."""
        return [self.coordinator]

    def _token(self) -> str:
        self._tokens += 1
        return f"t{self._tokens}"

    def launch(self, deployment: Deployment, leader: Process) -> None:
        """Start the workers of an attempt, each with a copy of the program of its own."""
        self._note(f"launch attempt {deployment.attempt}")
        if self._lacks_room(deployment):
            coordinator, attempt = self.coordinator, deployment.attempt
            self.reports.append(
                (leader, lambda: coordinator.workers_lost(attempt, "there is no room"))
            )
            return
        shipped = cloudpickle.dumps(deployment.job)
        for number in range(deployment.job.workers):
            process = Process((deployment.attempt, number), leader=leader.address)
            self._processes[process.address] = process
            own = replace(deployment, job=pickle.loads(shipped))
            try:
                process.worker = Worker(own, number, self._ports(process))
                self._crew = None
            except RAISED as error:
                # Without state to restore, functions are opened at once.
                self._fail(process, reportable(error))
            else:
                self._launched(process.worker)

    def room(self) -> int:
        """For how many workers there is room just now."""
        return self._room_changes[0][1]

    def _change_room(self) -> None:
        """A host is lost, with a worker where there are now too many; or one is there again."""
        while len(self._room_changes) > 1 and self.steps >= self._room_changes[1][0]:
            self._room_changes.pop(0)
            self._note(f"room for {self.room()} workers")
            workers = self._current_workers()
            if len(workers) > self.room():
                self._crash_worker(self._rooms.choice(workers))

    def _lacks_room(self, deployment: Deployment) -> bool:
        """Whether the workers of an attempt cannot all be started, so that none is."""
        return bool(self.settings.room) and deployment.job.workers > self.room()

    def _launched(self, worker: Worker) -> None:
        """For those that look on: a worker is there, and has done nothing."""

    def stop(self, attempt: Attempt) -> None:
        """The workers of an attempt will end, each some time from now."""
        for process in self._workers():
            if process.address[0] == attempt and process.dies_at_step is None:
                process.dies_at_step = self.steps + self.random.randrange(200)

    def _workers(self) -> list[Process]:
        if self._crew is None:
            self._crew = [p for p in self._processes.values() if p.worker is not None]
        return self._crew

    def _current_workers(self) -> list[Process]:
        current = self.coordinator.attempts[-1].attempt if self.coordinator.attempts else 0
        return [p for p in self._workers() if p.address[0] == current]

    def _kill(self, process: Process) -> None:
        process.alive = False
        self._processes.pop(process.address, None)
        self._crew = None
        for link in [link for link in self._links if process.address in link]:
            # What it sent last may still arrive; what it was to hear is gone.
            if link[1] == process.address:
                del self._links[link]

    def _crash_something(self) -> None:
        workers = self._current_workers()
        if workers and self.random.random() < 0.75:
            self._crash_worker(self.random.choice(workers))
        else:
            self._note("crash coordinator")
            self._replace_leader()
            self._end_workers_some_time(self.random)
            self._start_leader(succeeds=True)

    def _crash_worker(self, process: Process) -> None:
        self._note(f"crash worker {process.address}")
        self._kill(process)
        attempt, number = Attempt(process.address[0]), process.address[1]
        coordinator = self.coordinator
        self.reports.append(
            (self.leader, lambda: coordinator.workers_lost(attempt, "it was killed", number))
        )

    def _end_workers_some_time(self, random: Random) -> None:
        for process in self._workers():
            if process.dies_at_step is None:
                process.dies_at_step = self.steps + random.randrange(400)

    def _elect_another(self) -> None:
        """Another process leads from now on."""
        self._note("another process is elected")
        self.leader.dies_at_step = self.steps + self._terms.randrange(3000)
        if self._terms.random() < 0.5:
            self.leader.hears_late = True
        else:
            self.coordinator.depose()
            if not self.coordinator.is_replaced:
                return  # it was about to say that the job is over
            self.leader.is_deposed = True
        self._end_workers_some_time(self._terms)
        self._old_leaders.append((self.leader, self.coordinator))
        self._start_leader(succeeds=True)

    def _replace_leader(self) -> None:
        """The leader dies, or is cut off: nobody hears it and it hears nobody, but it goes on."""
        if self._lives_on.random() < 0.5:
            self._kill(self.leader)
            return
        self.leader.dies_at_step = self.steps + self._lives_on.randrange(3000)
        for link in [link for link in self._links if self.leader.address in link]:
            del self._links[link]
        self._old_leaders.append((self.leader, self.coordinator))

    def _tick_old_leaders(self) -> None:
        for process, coordinator in list(self._old_leaders):
            assert process.dies_at_step is not None
            if self.steps >= process.dies_at_step:
                if process.hears_late:
                    coordinator.depose()
                    process.is_deposed = True
                process.alive = False
                self._old_leaders.remove((process, coordinator))
            elif self._lives_on.random() < 0.1:
                coordinator.tick()

    # ------------------------------------------------------------ the scheduler

    def run(self) -> None:
        """Run until the job has ended."""
        while not self.coordinator.is_done:
            self.step()
            if self.steps > self.settings.max_steps:
                raise StuckError(f"no end after {self.steps} steps\n{self.story()}")

    def step(self) -> None:
        """One event, chosen at random from those that can happen."""
        self.steps += 1
        self._drift()
        is_over = self.coordinator.status.is_final
        may_crash = bool(self.coordinator.attempts) and not is_over
        if may_crash and self._crashes and self.steps >= self._crashes[0]:
            self._crashes.pop(0)
            self._crash_something()
        # One that has not begun would take the job back from its successor, which is not elected
        # again here.
        may_elect = may_crash and bool(self.coordinator.attempts)
        if may_elect and self._elections and self.steps >= self._elections[0]:
            self._elections.pop(0)
            self._elect_another()
        self._change_room()
        self._bury()
        self._do_something()
        self.requests.ask_if_due(self.steps, self.coordinator)
        for leader in self._leaders():
            leader.tick()
        self._tick_old_leaders()
        self._stop_if_asked()
        if self.settings.check_invariants:
            self._check_invariants()

    def _do_something(self) -> None:
        choices: list[Callable[[], None]] = []
        if self._links:
            choices += [self._deliver] * 4
        for process in self._workers():
            if not process.idle:
                choices += [self._step_worker] * 4
                break
        for work in self.works:
            if work.not_before <= self.steps:
                choices.append(self._run_work)
                break
        if self.reports:
            choices.append(self._report)
        if choices:
            self.random.choice(choices)()
        else:
            self._let_time_pass()

    def _drift(self) -> None:
        """A step takes some time."""
        self.clock.now += self.random.random() * 0.001

    def _stop_if_asked(self) -> None:
        wanted = self.settings.stop_after_epochs
        if wanted is None:
            return
        complete = [r for r in self.coordinator.records if r.status == EpochStatus.COMPLETE]
        if len(complete) >= wanted:
            self._note("cancel")
            self.coordinator.cancel()

    def _bury(self) -> None:
        for process in self._workers():
            if process.dies_at_step is not None and self.steps >= process.dies_at_step:
                self._kill(process)

    def _deliver(self) -> None:
        link = self.random.choice(list(self._links))
        message = self._links[link].popleft()
        process = self._processes.get(link[1])
        if not self._links[link]:
            del self._links[link]
        if process is None:
            return
        if process.coordinator is not None:
            self._note(f"{link[0]} says {_short(message)}")
            process.coordinator.receive(message)
        else:
            process.idle = False
            self._guarded(process, lambda worker: worker.receive(message))

    def _step_worker(self) -> None:
        process = self.random.choice([p for p in self._workers() if not p.idle])

        def step(worker: Worker) -> None:
            process.idle = not worker.step(lambda: self._hear(process, worker))

        self._guarded(process, step)

    def _hear(self, process: Process, worker: Worker) -> bool:
        """A word of a coordinator may arrive between two tasks."""
        if self._hears.random() < 0.8:
            return False
        for link in self._links:
            if link[1] == process.address and link[0][1] == COORDINATOR:
                worker.receive(self._links[link].popleft())
                if not self._links[link]:
                    del self._links[link]
                return True
        return False

    def _guarded(self, process: Process, action: Callable[[Worker], None]) -> None:
        """What a worker raises ends it; the coordinator hears of it."""
        assert process.worker is not None
        try:
            action(process.worker)
        except FencedError:
            self._kill(process)
        except RAISED as error:
            self._fail(process, reportable(error))

    def _fail(self, process: Process, error: Exception) -> None:
        self._note(f"worker {process.address} failed: {named(error)}")
        self.failures.append(error)
        failed = WorkerFailed(Attempt(process.address[0]), process.address[1], error)
        self._ports(process).send(COORDINATOR, failed)
        self._kill(process)

    def stall(self) -> int:
        """How many steps a piece of background work is held up: mostly none, sometimes many."""
        settings = self.settings
        if self.random.random() < settings.stall_odds:
            return self.random.randrange(settings.stall_steps)
        return 0

    def _run_work(self) -> None:
        due = [number for number, w in enumerate(self.works) if w.not_before <= self.steps]
        work = self.works.pop(self.random.choice(due))
        # A dying process may have got its last request out, or not.
        if not work.owner.alive and self.random.random() < 0.5:
            return
        try:
            result = work.run()
        except RAISED as error:
            self._work_failed(work, reportable(error))
        else:
            self.reports.append((work.owner, lambda: work.done(result)))

    def _work_failed(self, work: Work, error: Exception) -> None:
        self.reports.append((work.owner, lambda: work.failed(error)))

    def _report(self) -> None:
        owner, report = self.reports.pop(self.random.randrange(len(self.reports)))
        if not owner.alive:
            return
        owner.idle = False
        if owner.worker is None:
            report()
        else:
            self._guarded(owner, lambda _: report())

    def _let_time_pass(self) -> None:
        """Nothing can happen now: go on to the next moment at which something is due."""
        times = [leader.deadline() for leader in self._leaders()]
        times += [p.worker.deadline() for p in self._workers() if p.worker is not None]
        due = [time for time in times if time is not None]
        if self.works:
            # Work that is held up is what everything waits for: let it go.
            self.works = [replace(work, not_before=0) for work in self.works]
            return
        if not due:
            raise StuckError(f"nothing can happen any more\n{self.story()}")
        self.clock.now = max(self.clock.now, min(due)) + 1e-6
        for process in self._workers():
            process.idle = False

    # ------------------------------------------------------------ what happened

    @property
    def attempts(self) -> list[AttemptRecord]:
        """The attempts of all leaders there were, oldest first."""
        return [record for leader in self.coordinators for record in leader.attempts]

    @property
    def records(self) -> list[EpochRecord]:
        """The epochs of all leaders there were, oldest first."""
        return [record for leader in self.coordinators for record in leader.records]

    def _note(self, line: str) -> None:
        self.trace.append(f"{self.steps:6d} {self.clock.now:8.3f}  {line}")

    def story(self, lines: int = 60) -> str:
        """The last things that happened, for a person who has a failing seed."""
        head = f"seed {self.settings.seed}, status {self.coordinator.status.value}"
        return "\n".join([head, *self.trace[-lines:]])

    def _check_invariants(self) -> None:
        self.coordinator.check_invariants()
        for process in self._workers():
            if process.worker is not None:
                process.worker.check_invariants()


def _short(message: Any) -> str:
    """A message in a few words: what it is, and of which epoch and subtask."""
    known = ("epoch", "task", "subtask", "worker", "reason", "error")
    parts = [f"{name}={getattr(message, name)}" for name in known if hasattr(message, name)]
    return f"{type(message).__name__}({', '.join(parts)})"
