"""The other end of a driver on a host: tells it what to do, and sees what becomes of its job."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.drive.ledger import LedgerJob, await_until
from tests.services.spark_hosts import DRIVER, SLOTS_EACH, SparkHosts

ROOT = Path(__file__).parents[2]
TRIES = 5
FINISH_S = 600.0
"""How long the rest of a ledger may take on a machine that has other work."""


class RemoteDriver:
    """A driver on the driver's host of a cluster."""

    def __init__(self, cluster: SparkHosts) -> None:
        self.cluster = cluster
        self.log = cluster.folder / "driver.log"
        self._read = 0
        address = cluster.hosts.address(DRIVER)
        with self.log.open("ab") as log:
            self._process = cluster.hosts.start(
                DRIVER,
                [sys.executable, "-m", "tests.hosts.driver", cluster.entry, address],
                cwd=ROOT,
                env=cluster.environment(DRIVER),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def tell(self, what: str, **arguments: Any) -> Any:
        """Have the driver do something, and wait for its answer."""
        self._process.stdin.write(json.dumps([what, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the driver has ended: {self.log.read_text()[-3000:]}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def await_all_slots(self) -> None:
        """Until every host of the cluster has its slots: after a test, for the next."""
        self.tell("await_slots", number=SLOTS_EACH * len(self.cluster.workers))

    def start(self, folder: Path, **settings: Any) -> RunningLedger:
        return RunningLedger(self, folder, settings)

    def warnings(self) -> list[str]:
        """What the driver has warned of since this was last asked."""
        said = self.log.read_text()[self._read :]
        self._read += len(said)
        return [line for line in said.splitlines() if " WARNING " in line]


class RunningLedger:
    """A ledger on the cluster; it runs until it is told to hurry."""

    def __init__(self, driver: RemoteDriver, folder: Path, settings: dict[str, Any]) -> None:
        patience = settings.pop("patience", {})
        least, leaves = settings.pop("least", None), settings.pop("leaves", True)
        keeps = settings.pop("keeps", False)
        settings = {"count": 300_000, "per_second": 2_000.0, "workers": 2, **settings}
        self.ledger = LedgerJob(folder, **settings)
        self._driver = driver
        how = {"patience": patience, "least": least, "leaves": leaves, "keeps": keeps}
        driver.tell("start", folder=str(folder), **how, **settings)

    def look(self) -> dict[str, Any]:
        return self._driver.tell("look")

    def attempt(self) -> int:
        return self.look()["attempts"][-1][0]

    def await_look(self, what: Callable[[dict[str, Any]], Any], why: str) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def is_so() -> bool:
            seen.update(self.look())
            assert seen["status"] not in ("failed", "finished"), seen
            return bool(what(seen))

        await_until(is_so, why, 300)
        return seen

    def await_epoch(self, after: int = 0) -> dict[str, Any]:
        """Until an attempt later than one has completed an epoch, and its output is there."""
        return self.await_look(
            lambda _: any(attempt > after for attempt in self._written()),
            f"an attempt after {after} has written something",
        )

    def _written(self) -> set[int]:
        """The attempts of which there is output."""
        return {int(path.name.partition("-")[0]) for path in self._files()}

    def _files(self) -> list[Path]:
        return [path for path in self.ledger.shelf.folder.iterdir() if path.name[0] != "."]

    def _written_at(self) -> list[float]:
        return sorted(path.stat().st_mtime for path in self._files())

    def hosts(self) -> set[str]:
        """The names of the hosts that have workers."""
        hosts = self._driver.cluster.hosts
        addresses = {host for host, _ in self.look()["workers"]}
        return {name for name in hosts.names if hosts.address(name) in addresses}

    def finish(self) -> None:
        """Have the rest come at once, and see that everything was counted once."""
        self.ledger.hurry.touch()
        assert self._driver.tell("wait", timeout_s=FINISH_S) == "finished"
        self.ledger.check()

    def first_record_after(self, moment: float) -> float:
        """How long after a moment the longest silence of the output ended, in seconds."""
        written = self._written_at()
        around = [written[0], *[at for at in written if at > moment - 2.0]]
        _, end = max(pairwise(around), key=lambda pair: pair[1] - pair[0])
        return end - moment

    def await_output_after(self, moment: float) -> None:
        """Until something is written that was not there at a moment."""

        def is_there(_: object) -> bool:
            return any(at > moment for at in self._written_at())

        self.await_look(is_there, "there is new output")


def begun(driver: RemoteDriver, folder: Path, **settings: Any) -> RunningLedger:
    """A ledger with workers on all hosts of the cluster, which has completed an epoch.

    Spark may put them all on one host, where that has slots just then: another try is made.
    """
    driver.warnings()
    for number in range(TRIES):
        place = folder / str(number)
        place.mkdir()
        job = driver.start(place, **settings)
        job.await_epoch()
        if job.hosts() == set(driver.cluster.workers):
            return job
        driver.tell("cancel")
        driver.await_all_slots()
    raise AssertionError(f"in {TRIES} tries workers were never on all of {driver.cluster.workers}")
