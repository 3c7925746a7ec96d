"""Several drivers of one job, each a process, and what is done to them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mainstay.runtime.coordinator.failure_history import SILENT
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.failures import StoredFailure, read_failures
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import LedgerJob, await_until
from tests.ha.histories import check_commits, check_files, check_leaders, records_of
from tests.services.zookeeper import ZooKeeperServers

COUNT = 24_000
"""More than any test lives to see at this rate; at the end of a test the rest comes at once."""
RATE = 400.0
PATIENCE_S = 120.0
LEASE_S = 1.5
NEVER_S = 600.0
"""A lease that no test lives to see the end of."""
WITHIN_S = 40.0
"""A session within which a server is started on a machine that has other things to do."""


class Driver:
    """A process, and what it says of itself."""

    def __init__(self, folder: Path, *settings: Any) -> None:
        command = [sys.executable, "-m", "tests.ha.driver", str(folder)]
        command += map(str, settings)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        self.statuses: list[str] = []
        self.recoveries: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = self.recoveries if line.startswith("# ") else self.statuses
            told.append(line.strip("# \n"))

    @property
    def leads(self) -> bool:
        return self.status == "running"

    @property
    def led_all_the_time(self) -> bool:
        """Whether it ran the job from when it was elected to the end, in one go."""
        first = self.statuses.index("running")
        return set(self.statuses[first:]) == {"running", "finished"}

    @property
    def status(self) -> str:
        return self.statuses[-1] if self.statuses else ""

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.send(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Drivers:
    """All drivers of one job."""

    rate = RATE
    patience_s = PATIENCE_S

    def __init__(self, folder: Path, deaths: int = 0) -> None:
        self.ledger = self._job(folder, deaths)
        self._deaths = deaths
        self._more: tuple[str, ...] = ()
        self.alive: list[Driver] = []
        self._folder = folder
        self._storage = open_storage(self.ledger.directory)

    def _job(self, folder: Path, deaths: int) -> LedgerJob:
        return LedgerJob(folder, count=COUNT, per_second=self.rate, workers=2, deaths=deaths)

    def start(
        self, store: str = "files", *, lease_s: float = LEASE_S, shift_s: float = 0.0
    ) -> Driver:
        settings = (store, lease_s, shift_s, self._deaths, *self._more)
        self.alive.append(Driver(self._folder, self.ledger.count, self.rate, *settings))
        return self.alive[-1]

    @property
    def epoch(self) -> int:
        latest = read_history(self._storage).latest_epoch
        return latest.epoch if latest is not None else 0

    def leader(self, *, not_of: Driver | None = None) -> Driver:
        """The driver that leads, once it has completed epochs."""
        others = [driver for driver in self.alive if driver is not not_of]
        await_until(
            lambda: any(driver.leads for driver in others), "some driver leads", self.patience_s
        )
        first = self.epoch
        await_until(lambda: self.epoch > first, "it has completed an epoch", self.patience_s)
        leading = [driver for driver in others if driver.leads]
        return leading[0] if leading else self.leader(not_of=not_of)

    def failures(self) -> list[StoredFailure]:
        return read_failures(self._storage)

    def kill(self, driver: Driver) -> None:
        driver.kill()
        self.alive.remove(driver)

    def await_end(self) -> None:
        """Wait for the end, which is the same for all."""
        self.ledger.hurry.touch()
        for driver in self.alive:
            assert driver.process.wait(self.patience_s) == 0, driver.statuses
            driver._reader.join()
            assert driver.status == "finished", driver.statuses
            print(*driver.recoveries, sep="\n")

    def finish(self, least_leaders: int) -> None:
        """Wait for the end, and check everything."""
        self.await_end()
        self.ledger.check()
        records = records_of(self._storage)
        assert check_leaders(records) >= least_leaders
        names = [path.name.split("-") for path in self.ledger.shelf.folder.iterdir()]
        done = [(int(attempt), int(epoch)) for attempt, _, epoch in names if attempt[0] != "."]
        check_commits(records, done)
        check_files(self._storage, retain=3)


def wait_a_moment(seed: int, most_s: float) -> None:
    """So that the leader is met at another phase each time."""
    threading.Event().wait(random.Random(seed).uniform(0.0, most_s))


def kill_leaders(drivers: Drivers, rounds: int, store: str = "files", seed: int = 0) -> None:
    for _ in range(2):
        drivers.start(store)
    for number in range(rounds):
        leader = drivers.leader()
        wait_a_moment(100 * seed + number, 0.4)
        drivers.kill(leader)
        if number < rounds - 1:
            drivers.start(store)
    drivers.finish(rounds + 1)
    told = [each.cause for each in drivers.failures() if each.outcome == "taken over"]
    assert len(told) >= rounds
    assert set(told) == {SILENT}


def hand_over(drivers: Drivers, store: str = "files") -> None:
    """The leader is told to end: the other leads long before a lease is over."""
    for _ in range(2):
        drivers.start(store, lease_s=NEVER_S)
    leader = drivers.leader()
    leader.send(signal.SIGTERM)
    assert leader.process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    drivers.alive.remove(leader)
    drivers.finish(2)
    outcomes = [each.outcome for each in drivers.failures()]
    assert outcomes.count("handed over") == 1
    assert "taken over" not in outcomes


def freeze_leaders(drivers: Drivers, rounds: int, store: str = "files", seed: int = 0) -> None:
    """Each leader is frozen until another leads, and goes on then: it stands by."""
    for _ in range(2):
        drivers.start(store)
    for number in range(rounds):
        leader = drivers.leader()
        wait_a_moment(100 * seed + number, 0.4)
        leader.send(signal.SIGSTOP)
        drivers.leader(not_of=leader)
        leader.send(signal.SIGCONT)
        await_until(lambda leader=leader: leader.status != "running", "it leads no more")
    drivers.finish(rounds + 1)


def freeze_two_of_three(drivers: Drivers, ensemble: ZooKeeperServers, seconds: float) -> None:
    """Two drivers of a job, and two of three servers that answer nobody for a while: nobody leads
    until they do again."""
    for _ in range(2):
        drivers.start(ensemble.hosts)
    leader = drivers.leader()
    ensemble.freeze(0, 1)
    try:
        await_until(lambda: not leader.leads, "the leader is not sure any more that it leads")
        epoch = drivers.epoch
        threading.Event().wait(seconds)
        assert drivers.epoch == epoch, "nobody leads"
    finally:
        ensemble.thaw(0, 1)
    drivers.leader()
    drivers.finish(2)
