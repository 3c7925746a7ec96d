"""The jobs in short: processes of this machine, made-up rows, folders; no cluster and no server.

What the plan may do is what needs nothing else. The soak has the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.together import outputs
from tests.together.answers import AnswerBook, Legal
from tests.together.around import disk_acts
from tests.together.asking import Clients
from tests.together.chaos import Chaos
from tests.together.generator import events
from tests.together.jobs import Pace, TogetherJob
from tests.together.judging import judge
from tests.together.local_places import LocalPlaces
from tests.together.model import Prefixes, Rows
from tests.together.report import Report
from tests.together.running import Running
from tests.together.storage import SmallDisk

PACE = Pace(every="0.5s", lease="6s")
WEIGHTS = {
    "kill worker": 4,
    "kill driver": 2,
    "freeze worker": 1,
    "rescale": 2,
    "savepoint": 2,
    "restart from a savepoint": 2,
    "upgrade": 2,
}


class Short(Running):
    """``closing`` ends what is left of it."""

    def __init__(
        self,
        folder: Path,
        places: LocalPlaces,
        closing: ExitStack,
        *,
        jobs: Sequence[str] = ("orders", "accounts"),
        drivers: int = 2,
        disk: SmallDisk | None = None,
        defect: str | None = None,
    ) -> None:
        """``disk`` is for RocksDB's files and those of sinks, and may be filled."""
        self.seed = places.seed
        self._places = places
        self.prefixes = Prefixes()
        for each in events(self.seed, places.events):
            self.prefixes.add(each)
        local = disk.place if disk else folder
        self.jobs = [
            TogetherJob(name, folder, folder, local, None, places, drivers, PACE, defect)
            for name in jobs
        ]
        for job in self.jobs:
            closing.callback(job.close)
        self.books = {job.name: AnswerBook(self._legal(job.name)) for job in self.jobs}
        self.clients = Clients(self.jobs, self.books, self.seed)
        around = disk_acts(disk, disk) if disk else {}
        self.chaos = Chaos(self.jobs, folder, folder / "savepoints", self.clients, around)

    def _legal(self, name: str) -> Legal:
        """All rows are there from the beginning, as far as clients know."""
        if name == "accounts":
            return Legal(lambda _: self._places.moves, lambda *_: None, lambda *_: 0)
        return Legal(self.prefixes.produced, self.prefixes.last_of, self.prefixes.count_at)

    def amounts(self) -> tuple[int, int]:
        return self._places.events, self._places.moves

    def output(self, job: TogetherJob, name: str) -> Rows:
        found = outputs.of_folders(name, [each.parquet for each in job.incarnations])
        return _last(found) if name == "balances" else found

    def begin(self) -> None:
        """The rows come as they are read."""

    def watch(self) -> None:
        """Such a run is too short for anything to grow in it."""

    def end(self) -> None:
        """The rows end by themselves."""

    def finish(self) -> None:
        """So do the jobs."""

    def judged(self, minutes: float) -> Report:
        return judge(self, minutes)


def _last(balances: Rows) -> Rows:
    """What would be left of them in a table by key."""
    last: dict[int, int] = {}
    for k, seen in balances:
        last[k] = max(seen, last.get(k, 0))
    return Counter(last.items())
