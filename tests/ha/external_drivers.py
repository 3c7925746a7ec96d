"""Several drivers of one job with its state in PostgreSQL, which is looked at all the time."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import psutil

from tests.drive.ledger import LedgerJob, await_until
from tests.ha.drivers import Driver, Drivers, wait_a_moment
from tests.ha.external_histories import Log, check_end, check_look, check_order
from tests.ha.external_job import external_job
from tests.ha.external_looks import Client, Seen

RATE = 150.0
LEASE_S = 2.0
"""These drivers have a database server beside them, and get on more slowly."""
PAUSE_S = 0.2
"""Between two looks, so that the drivers get on."""


class ExternalDrivers(Drivers):
    """All drivers of one job, and a client of its database."""

    rate = RATE
    patience_s = 300.0

    def __init__(
        self, folder: Path, protocol: str, dsn: str, count: int, origin: str | None = None
    ) -> None:
        self._protocol, self._dsn, self._count = protocol, dsn, count
        super().__init__(folder)
        self._more = (protocol, dsn, *([origin] if origin else []))
        archive = folder / "archive"
        archive.mkdir()
        self.client = Client(dsn, protocol)
        self.log = Log(self._storage, archive, self.ledger.count)
        self.looks: list[Seen] = []
        self.compared = 0

    def _job(self, folder: Path, deaths: int) -> LedgerJob:
        return external_job(
            folder, self._protocol, self._dsn, count=self._count, per_second=self.rate
        )

    def start(
        self, store: str = "files", *, lease_s: float = LEASE_S, shift_s: float = 0.0
    ) -> Driver:
        return super().start(store, lease_s=lease_s, shift_s=shift_s)

    def start_as_always(self) -> Driver:
        """Start a driver that goes on with what is there, wherever the job came from."""
        self._more = self._more[:2]
        return self.start()

    def look(self) -> None:
        """Look at the database, and check it against the log."""
        seen = self.client.look()
        if seen is None:
            return
        self.log.read_on()
        self.compared += check_look(seen, self.log)
        if self.looks:
            check_order(self.looks[-1], seen)
        self.looks = [*self.looks[-1:], seen]

    def look_until_another_leads(self, *, not_of: Driver | None = None) -> None:
        others = [driver for driver in self.alive if driver is not not_of]
        self.look()
        while not any(driver.leads for driver in others):
            threading.Event().wait(PAUSE_S)
            self.look()
        self.look()

    def freeze(self, leader: Driver, *, with_workers: bool) -> list[psutil.Process]:
        """Freeze a leader, and its workers or not; the processes that are frozen."""
        driver = psutil.Process(leader.process.pid)
        frozen = [driver, *(driver.children(recursive=True) if with_workers else [])]
        for process in frozen:
            process.send_signal(signal.SIGSTOP)
        return frozen

    def finish(self, least_leaders: int) -> None:
        super().finish(least_leaders)
        self.check_database()

    def check_database(self) -> None:
        """What is there at the end is what the log says."""
        seen = self.client.look()
        assert seen is not None
        self.log.read_on()
        check_end(seen, self.log)


def thaw(frozen: list[psutil.Process]) -> None:
    """Let processes go on that still are."""
    for process in frozen:
        if process.is_running():
            process.send_signal(signal.SIGCONT)


def trouble(drivers: ExternalDrivers, kills: int, freezes: int, seed: int = 0) -> None:
    """Leaders are killed and frozen past their lease, in some order and at some phase each."""
    rounds = (["kill"] * kills + ["freeze all", "freeze"] * freezes)[: kills + freezes]
    random.Random(seed).shuffle(rounds)
    for _ in range(2):
        drivers.start()
    await_until(drivers.client.look, "there is state in the database", drivers.patience_s)
    for number, what in enumerate(rounds):
        leader = drivers.leader()
        wait_a_moment(100 * seed + number, 0.4)
        print(f"round {number}: {what}, at epoch {drivers.epoch}", flush=True)
        if what == "kill":
            kill_one(drivers, leader)
        else:
            freeze_one(drivers, leader, with_workers=what == "freeze all")
    drivers.finish(len(rounds) + 1)
    assert drivers.compared, "no look has met a whole epoch"
    print(f"compared {drivers.compared} times, {len(drivers.log.records)} records")


def kill_one(drivers: ExternalDrivers, leader: Driver) -> None:
    """Kill a leader, and start another driver."""
    drivers.kill(leader)
    drivers.start()
    drivers.look_until_another_leads()


def freeze_one(drivers: ExternalDrivers, leader: Driver, *, with_workers: bool) -> None:
    """Freeze a leader until another one leads; it goes on then, and stands by."""
    frozen = drivers.freeze(leader, with_workers=with_workers)
    try:
        drivers.look_until_another_leads(not_of=leader)
        drivers.leader(not_of=leader)
    finally:
        thaw(frozen)
    await_until(lambda: leader.status != "running", "it leads no more", drivers.patience_s)
    drivers.look()
