"""A job and its drivers, over everything that becomes of it: restarts, upgrades, new histories.

An *incarnation* is one snapshot directory. A job that goes on from a savepoint has a new one, under
a new name, because sinks know a job by its name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from mainstay.client.address import Address
from mainstay.client.service import Service
from mainstay.errors import MainstayError
from mainstay.snapshot.history import Ended, Finished
from mainstay.snapshot.object_storage import open_storage
from tests.together.local_places import LocalPlaces
from tests.together.logs import LogReader
from tests.together.places import Places
from tests.together.states import state_of

ROOT = Path(__file__).parents[2]
AGAIN = (75, 143, -9, -15)
"""With what a driver ends that is simply started again."""
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Pace:
    """How often snapshots are taken, and how long a leader may be silent."""

    every: str = "2s"
    lease: str = "15s"


SOAKING = Pace()


class NotDoneError(Exception):
    """What was asked of a job it has not done, and goes on."""


class Driver:
    """A process."""

    def __init__(self, settings: Path) -> None:
        self._url = settings.with_suffix(".url")
        self.log = settings.with_suffix(".log")
        command = [sys.executable, "-m", "tests.together.driver", str(settings)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def service(self) -> Service | None:
        """None until it can be asked."""
        return Service(Address.of(self.url)) if self.url else None

    @property
    def url(self) -> str | None:
        return self._url.read_text() if self._url.exists() else None

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        family = [self.process.pid, *(each.pid for each in self._children())]
        for pid in family:
            if psutil.pid_exists(pid):
                psutil.Process(pid).kill()
        self.process.wait()

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


@dataclass(frozen=True)
class Incarnation:
    """One history of a job."""

    number: int
    name: str
    snapshots: Path
    parquet: Path
    origin: str | None = None


class TogetherJob:
    """One of the jobs. Requests are made one at a time."""

    def __init__(
        self,
        name: str,
        folder: Path,
        storage: Path,
        local: Path,
        master: str | None,
        places: Places | LocalPlaces,
        drivers: int,
        pace: Pace = SOAKING,
        defect: str | None = None,
    ) -> None:
        """``storage`` is where snapshots go, ``local`` has RocksDB's files and those of sinks.
        Without a master there is no cluster. ``defect`` is planted in every driver."""
        self.name = name
        self.version = 1
        self.parallelism = 2
        self.findings: list[str] = []
        self.savepoints: list[str] = []
        self.bases: dict[int, dict[Any, Any]] = {}
        """By version, what ``seen`` was when the job went on with it."""
        self.started = 0
        self.logs: list[LogReader] = []
        self.incarnations: list[Incarnation] = []
        self.drivers: list[Driver] = []
        self.asking = threading.Lock()
        self._minding = threading.RLock()
        self._is_held = True
        self._has_ended = False
        self._folder = folder / name
        self._storage = storage
        self._local = local / name
        self._pace, self._defect = pace, defect
        self.master = master
        self._places = places
        self._count = drivers
        self._folder.mkdir(parents=True)
        self._incarnate(None)

    @property
    def current(self) -> Incarnation:
        return self.incarnations[-1]

    @property
    def log(self) -> LogReader:
        return self.logs[-1]

    def _incarnate(self, origin: str | None) -> None:
        number = len(self.incarnations) + 1
        made = Incarnation(
            number,
            f"{self.name}-{number}",
            self._storage / f"{self.name}-{number}",
            self._local / f"parquet-{number}",
            origin,
        )
        self.incarnations.append(made)
        self.logs.append(LogReader(open_storage(str(made.snapshots))))

    # ------------------------------------------------------------ drivers

    def start(self) -> None:
        with self._minding:
            self._is_held = self._has_ended = False
            self.mind()

    def mind(self) -> None:
        """Start drivers in the place of those that have died, as a supervisor does."""
        with self._minding:
            self._bury()
            while not self._is_over and len(self.drivers) < self._count:
                self.drivers.append(self._driver())

    @property
    def _is_over(self) -> bool:
        """Whether nobody is to be started: the job is being stopped, or has read all there is."""
        return self._is_held or (self._places.is_bounded and self._has_ended)

    def _bury(self) -> None:
        for driver in [each for each in self.drivers if not each.is_alive]:
            code = driver.process.returncode
            self.drivers.remove(driver)
            self._has_ended |= code == 0
            if code in AGAIN or (code == 0 and (self._is_held or self._places.is_bounded)):
                continue
            said = driver.log.read_text(errors="replace")[-3000:]
            self.findings.append(f"{self.name}: a driver has ended with {code}: {said}")

    def _driver(self) -> Driver:
        self.started += 1
        now = self.current
        has_begun = bool(self.log.records) or any(now.snapshots.glob("log/*"))
        settings = {
            "job": self.name,
            "name": now.name,
            "master": self.master,
            "parallelism": self.parallelism,
            "version": self.version,
            "snapshots": str(now.snapshots),
            "restore": "latest-or-new" if has_begun or not now.origin else now.origin,
            "is_shared": self._count > 1,
            "rocksdb": str(self._local / "rocksdb"),
            "defect": self._defect,
            "kind": type(self._places).__name__,
            **asdict(self._pace),
            "places": asdict(replace(self._places, parquet=str(now.parquet))),
        }
        place = self._folder / f"driver-{self.started}.json"
        place.write_text(json.dumps(settings))
        return Driver(place)

    def close(self) -> None:
        with self._minding:
            self._is_held = True
            for driver in self.drivers:
                driver.kill()

    # ------------------------------------------------------------ requests

    def tell(self, path: str, body: dict[str, Any], timeout_s: float = 60.0) -> Any:
        """Have the driver that leads do something."""
        said: list[str] = []
        for driver in list(self.drivers):
            service = driver.service
            if service is None or not driver.is_alive:
                continue
            try:
                return service.post(path, body, timeout_s).document()
            except (MainstayError, TimeoutError) as error:
                said.append(f"{type(error).__name__}: {error}")
        raise NotDoneError("; ".join(said) or "no driver can be asked")

    def rescale(self, parallelism: int) -> None:
        with self.asking:
            self.tell("/rescale", {"parallelism": parallelism})
            self.parallelism = parallelism

    def savepoint(self, path: Path) -> None:
        with self.asking:
            self.tell("/savepoint", {"path": str(path)})
            self.savepoints.append(str(path))

    def restart(self, path: Path | None, *, upgrade: bool) -> str:
        """Stop the job and go on: from a savepoint of it in a new history, or in the same one."""
        with self.asking:
            taken = self._stop(path)
            if taken is not None:
                self.savepoints.append(taken)
                self._incarnate(taken)
            if upgrade:
                self.version += 1
                self.bases[self.version] = self._seen(taken or str(self.current.snapshots))
            self.start()
            return "from a savepoint" if taken else "in its own history"

    def finish(self) -> None:
        """Have the job read all that there is, and end."""
        with self.asking:
            self._stop(None)
            self._places = replace(self._places, is_bounded=True)
            self.start()

    def _seen(self, place: str) -> dict[Any, Any]:
        return state_of(place, f"{self.operator}.seen")

    @property
    def operator(self) -> str:
        return "totals" if self.name == "orders" else "accounts"

    def _stop(self, path: Path | None) -> str | None:
        """Until all drivers have ended and the log says so. The savepoint, if there is one."""
        pause = threading.Event()
        with self._minding:
            self._is_held = True
        for number in range(int(PATIENCE_S)):
            target = None if path is None else f"{path}-{number}"
            try:
                self.tell("/stop", {"path": target, "drain": False})
            except NotDoneError:
                target = None
            for _ in range(30):
                if not any(driver.is_alive for driver in self.drivers):
                    break
                pause.wait(0.5)
            self._revive()
            if self._has_stopped():
                is_whole = target is not None and (Path(target) / "savepoint.json").exists()
                return target if is_whole else None
            pause.wait(1.0)
        raise NotDoneError(f"{self.name} was told to stop and does not")

    def _revive(self) -> None:
        """A driver that was killed while it was to stop: somebody has to stop the job."""
        with self._minding:
            self._bury()
            if not self.drivers and not self._has_stopped():
                self.drivers.append(self._driver())

    def _has_stopped(self) -> bool:
        self.log.read()
        newest = self.log.newest
        return not self.drivers and isinstance(newest, Ended | Finished)

    @property
    def has_finished(self) -> bool:
        self.log.read()
        return isinstance(self.log.newest, Finished)
