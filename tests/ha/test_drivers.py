"""Several drivers of one job, each a process: killed, frozen, cut off, with clocks of their own."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstay.runtime.coordinator.failure_history import SILENT
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.failures import StoredFailure, read_failures
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import LedgerJob, await_until
from tests.ha.histories import check_commits, check_files, check_leaders, records_of
from tests.services.zookeeper import ZooKeeperServers

# A process at a time that starts so many others is enough.
pytestmark = pytest.mark.xdist_group("drivers")

RATE = 1_500.0
PATIENCE_S = 120.0
LEASE_S = 1.5
NEVER_S = 600.0
"""A lease that no test lives to see the end of."""
WITHIN_S = 40.0
"""A session within which a server is started on a machine that has other things to do."""


class Driver:
    """A process, and what it says of itself."""

    def __init__(
        self, folder: Path, count: int, store: str, lease_s: float, shift_s: float
    ) -> None:
        command = [sys.executable, "-m", "tests.ha.driver", str(folder)]
        command += [str(count), str(RATE), store, str(lease_s), str(shift_s)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        self.statuses: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.statuses.extend(line.strip() for line in self.process.stdout)

    @property
    def leads(self) -> bool:
        return self.status == "running"

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

    def __init__(self, folder: Path, count: int) -> None:
        self.ledger = LedgerJob(folder, count=count, per_second=RATE, workers=2)
        self.alive: list[Driver] = []
        self._folder = folder
        self._storage = open_storage(self.ledger.directory)

    def start(
        self, store: str = "files", *, lease_s: float = LEASE_S, shift_s: float = 0.0
    ) -> Driver:
        self.alive.append(Driver(self._folder, self.ledger.count, store, lease_s, shift_s))
        return self.alive[-1]

    @property
    def epoch(self) -> int:
        latest = read_history(self._storage).latest_epoch
        return latest.epoch if latest is not None else 0

    def leader(self, *, not_of: Driver | None = None) -> Driver:
        """The driver that leads, once it has completed epochs."""
        others = [driver for driver in self.alive if driver is not not_of]
        await_until(lambda: any(driver.leads for driver in others), "some driver leads", PATIENCE_S)
        first = self.epoch
        await_until(lambda: self.epoch > first, "it has completed an epoch", PATIENCE_S)
        leading = [driver for driver in others if driver.leads]
        return leading[0] if leading else self.leader(not_of=not_of)

    def failures(self) -> list[StoredFailure]:
        return read_failures(self._storage)

    def kill(self, driver: Driver) -> None:
        driver.kill()
        self.alive.remove(driver)

    def finish(self, least_leaders: int) -> None:
        """Wait for the end, which is the same for all, and check everything."""
        for driver in self.alive:
            assert driver.process.wait(PATIENCE_S) == 0, driver.statuses
            driver._reader.join()
            assert driver.status == "finished", driver.statuses
        self.ledger.check()
        records = records_of(self._storage)
        assert check_leaders(records) >= least_leaders
        names = [path.name.split("-") for path in self.ledger.shelf.folder.iterdir()]
        done = [(int(attempt), int(epoch)) for attempt, _, epoch in names if attempt[0] != "."]
        check_commits(records, done)
        check_files(self._storage, retain=3)


@pytest.fixture
def drivers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Drivers]:
    made = Drivers(tmp_path, getattr(request, "param", 15_000))
    yield made
    for driver in made.alive:
        driver.kill()


def wait_a_moment(seed: int, most_s: float) -> None:
    """So that the leader is met at another phase each time."""
    threading.Event().wait(random.Random(seed).uniform(0.0, most_s))


def kill_leaders(drivers: Drivers, rounds: int, store: str = "files") -> None:
    for _ in range(2):
        drivers.start(store)
    for number in range(rounds):
        leader = drivers.leader()
        wait_a_moment(number, 0.4)
        drivers.kill(leader)
        drivers.start(store)
    drivers.finish(rounds + 1)
    told = drivers.failures()
    assert [each.attempt for each in told] == list(range(1, rounds + 1))
    assert {(each.cause, each.outcome) for each in told} == {(SILENT, "taken over")}


def test_leaders_are_killed_and_every_id_counts_once(drivers: Drivers) -> None:
    kill_leaders(drivers, 3)


def hand_over(drivers: Drivers, store: str = "files") -> None:
    """The leader is told to end: the other leads long before a lease is over."""
    for _ in range(2):
        drivers.start(store, lease_s=NEVER_S)
    leader = drivers.leader()
    leader.send(signal.SIGTERM)
    assert leader.process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    drivers.alive.remove(leader)
    drivers.finish(2)
    (told,) = drivers.failures()
    assert (told.attempt, told.outcome) == (1, "handed over")


def test_a_leader_that_is_told_to_end_hands_over_at_once(drivers: Drivers) -> None:
    hand_over(drivers)


def test_two_leaders_are_killed_in_a_row_and_the_third_driver_takes_over(drivers: Drivers) -> None:
    for _ in range(3):
        drivers.start()
    drivers.kill(drivers.leader())
    drivers.kill(drivers.leader())
    drivers.finish(3)


def freeze_leaders(drivers: Drivers, rounds: int, store: str = "files") -> None:
    """Each leader is frozen until another leads, and goes on then: it stands by."""
    for _ in range(2):
        drivers.start(store)
    for number in range(rounds):
        leader = drivers.leader()
        wait_a_moment(number, 0.4)
        leader.send(signal.SIGSTOP)
        drivers.leader(not_of=leader)
        leader.send(signal.SIGCONT)
        await_until(lambda leader=leader: leader.status != "running", "it leads no more")
    drivers.finish(rounds + 1)


def test_leaders_that_were_frozen_past_their_lease_stand_by(drivers: Drivers) -> None:
    freeze_leaders(drivers, 2)


def test_wall_clocks_that_are_an_hour_apart_change_nothing(drivers: Drivers) -> None:
    first = drivers.start(shift_s=-3600.0)
    assert drivers.leader() is first
    drivers.start(shift_s=3600.0)
    second = drivers.alive[-1]
    await_until(lambda: second.status == "standby", "the other one stands by")
    epoch = drivers.epoch
    await_until(lambda: drivers.epoch > epoch + 5, "the first goes on")
    assert first.leads
    drivers.kill(first)
    drivers.finish(2)


@pytest.mark.soak
@pytest.mark.parametrize("drivers", [60_000], indirect=True)
def test_many_leaders_are_killed(drivers: Drivers) -> None:
    kill_leaders(drivers, 20)


@pytest.mark.soak
@pytest.mark.parametrize("drivers", [40_000], indirect=True)
def test_many_leaders_are_frozen(drivers: Drivers) -> None:
    freeze_leaders(drivers, 10)


# ---------------------------------------------------------------- ZooKeeper


@pytest.mark.services
def test_leaders_by_zookeeper_are_killed_and_every_id_counts_once(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    kill_leaders(drivers, 2, zookeeper.hosts)


@pytest.mark.services
def test_a_leader_by_zookeeper_that_is_told_to_end_hands_over_at_once(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    hand_over(drivers, zookeeper.hosts)


@pytest.mark.services
def test_leaders_by_zookeeper_that_were_frozen_stand_by(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    freeze_leaders(drivers, 1, zookeeper.hosts)


@pytest.mark.services
def test_zookeeper_is_restarted_and_the_job_goes_on(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    for _ in range(2):
        drivers.start(zookeeper.hosts)
    drivers.leader()
    zookeeper.kill()
    zookeeper.start()
    drivers.leader()
    drivers.finish(1)


@pytest.mark.services
def test_a_restart_of_zookeeper_within_the_session_does_not_restart_the_job(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    for _ in range(2):
        drivers.start(zookeeper.hosts, lease_s=WITHIN_S)
    leader = drivers.leader()
    zookeeper.kill()
    zookeeper.start()
    assert drivers.leader() is leader
    drivers.finish(1)
    assert leader.statuses.count("running") == 1
    assert "standby" not in leader.statuses[leader.statuses.index("running") :]


@pytest.mark.services
def test_two_of_three_servers_are_frozen_and_the_job_goes_on_afterwards(
    drivers: Drivers, ensemble: ZooKeeperServers
) -> None:
    for _ in range(2):
        drivers.start(ensemble.hosts)
    leader = drivers.leader()
    ensemble.freeze(0, 1)
    try:
        await_until(lambda: not leader.leads, "the leader is not sure any more that it leads")
        epoch = drivers.epoch
        threading.Event().wait(LEASE_S)
        assert drivers.epoch == epoch, "nobody leads"
    finally:
        ensemble.thaw(0, 1)
    drivers.leader()
    drivers.finish(2)
