"""The job of the kill tests: ids that are all different, each written down once under its key.

What it must come to is known without running it: ``expected()`` is a plain loop. The sink keeps
files, because workers are processes of their own.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from mainstay.connectors import Polled, Sink, SinkContext, SinkWriter, Source, Split, SplitReader
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_job import Launcher, Patience, RemoteJob
from mainstay.drive.scaling import Scaling
from mainstay.ha.election import Election
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import (
    JobOptions,
    LocalRecoveryOptions,
    RestartOptions,
    RestoreOptions,
    SnapshotOptions,
)
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.schema import to_schema
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state

KEYS = 97
SCHEMA = to_schema("id long, k long")
PATIENCE_S = 60.0
STARTED: list[RemoteJob] = []
"""The jobs of the test that runs."""


class Ids(Source):
    """The numbers up to ``count``, given out at so many a second: a job has a middle for sure.

    When there is a file ``hurry`` the rest comes at once.
    """

    schema = SCHEMA

    def __init__(
        self, count: int, per_second: float, splits: int = 4, hurry: Path | None = None
    ) -> None:
        self.count = count
        self.per_second = per_second
        self.splits = splits
        self.hurry = hurry

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        bounds = [self.count * number // self.splits for number in range(self.splits + 1)]
        return [Split(f"ids-{first}", [first, after]) for first, after in pairwise(bounds)]

    def read(self, split: Split, offset: Any) -> SplitReader:
        first, after = split.data
        start = first if offset is None else offset
        return _IdsReader(start, after, self.per_second / self.splits, self.hurry)


class _IdsReader(SplitReader):
    def __init__(self, start: int, after: int, per_second: float, hurry: Path | None) -> None:
        self._start = start
        self._hurry = hurry
        self._position = start
        self._after = after
        self._per_second = per_second
        self._opened = time.monotonic()

    def poll(self, max_rows: int) -> Polled:
        elapsed_s = time.monotonic() - self._opened
        due = min(self._after, self._start + int(elapsed_s * self._per_second))
        if self._hurry is not None and self._hurry.exists():
            due = self._after
        ids = np.arange(self._position, min(self._position + max_rows, due), dtype=np.int64)
        self._position += len(ids)
        batch = pa.record_batch([pa.array(ids), pa.array(ids % KEYS)], schema=SCHEMA)
        is_over = self._position == self._after
        return Polled(batch if len(ids) else None, self._position, finished=is_over)


class Ledger(ms.KeyedProcess):
    """Writes every id down under its key, and passes it on."""

    seen = ms.ListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.id)
        return ctx.key, row.id


class Stumbling(Ledger):
    """Raises at one id: once, if there is a file that says so, otherwise always."""

    def __init__(self, at: int, once: str | None = None) -> None:
        self.at = at
        self.once = once

    def process(self, row: Any, ctx: Any) -> Any:
        if row.id == self.at and self._is_due():
            raise LookupError(f"there is no shelf for {row.id}")
        return super().process(row, ctx)

    def _is_due(self) -> bool:
        if self.once is None:
            return True
        try:
            os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class Shelf(Sink):
    """Committed rows as files of a folder. A handle holds rows and the name that counts once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def open(self, context: SinkContext) -> SinkWriter:
        return _ShelfWriter(context)

    def commit(self, handles: Sequence[bytes]) -> None:
        for handle in handles:
            name, ids = json.loads(handle)
            draft = self.folder / f".{name}.{os.getpid()}"
            draft.write_text(json.dumps(ids))
            draft.replace(self.folder / name)

    def ids(self) -> Counter[int]:
        files = [path for path in self.folder.iterdir() if not path.name.startswith(".")]
        return Counter(id for path in files for id in json.loads(path.read_text()))


class FatalShelf(Shelf):
    """Its commits are the driver's, and a few of them kill it in the middle.

    Each death leaves a file, so that there are only so many, whichever driver it is.
    """

    is_global = True

    def __init__(self, folder: Path, deaths: int) -> None:
        super().__init__(folder)
        self.deaths = [folder.parent / f"death-{number}" for number in range(deaths)]

    def commit_epoch(self, epoch: int, handles: Sequence[bytes]) -> None:
        self.commit(handles[:1])
        if len(handles) > 1 and (due := [path for path in self.deaths if not path.exists()]):
            due[0].touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.commit(handles[1:])


class _ShelfWriter(SinkWriter):
    def __init__(self, context: SinkContext) -> None:
        self._name = f"{context.attempt}-{context.subtask}"
        self._ids: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._ids += batch.column(1).to_pylist()

    def prepare(self, epoch: int) -> bytes | None:
        ids, self._ids = self._ids, []
        return json.dumps([f"{self._name}-{epoch}", ids]).encode() if ids else None


class LedgerJob:
    """One job in one folder, and what its results must be.

    ``before`` is what becomes of the ids before they are keyed. ``deaths`` is how many commits
    kill their driver.
    """

    def __init__(
        self,
        folder: Path,
        *,
        count: int = 12_000,
        per_second: float = 6_000.0,
        workers: int = 3,
        function: Ledger | None = None,
        mode: str = "exactly_once",
        before: Callable[[Any], Any] | None = None,
        deaths: int = 0,
        state: Any = "heap",
    ) -> None:
        self.count = count
        self.directory = str(folder / "snapshots")
        place = folder / "shelf"
        self.shelf = FatalShelf(place, deaths) if deaths else Shelf(place)
        self.hurry = folder / "hurry"
        environment = ms.Environment(parallelism=workers, mode=mode, state=state)
        ids = environment.source(Ids(count, per_second, hurry=self.hurry), uid="ids")
        ids = ids if before is None else before(ids)
        ledger = ids.key_by("k").process(function or Ledger(), "k long, id long", uid="ledger")
        ledger.sink(self.shelf, uid="shelf")
        self.spec: JobSpec = environment.plan()
        graph = environment.graph()
        backend = self.spec.backend
        self.scaling = Scaling(
            workers, lambda other: replace(plan_of(graph.at(other)), backend=backend)
        )

    def options(
        self,
        *,
        restore: str = "new",
        origin: str | None = None,
        max_failures: int = 100,
        tolerable_failures: int = 3,
        halt_alignment_s: float = 5.0,
        log_slots: int = 64,
        retain: int = 3,
        max_chain: int = 8,
        min_parallelism: int | None = None,
        local: LocalRecoveryOptions | None = None,
    ) -> JobOptions:
        snapshots = SnapshotOptions(
            every_s=0.2,
            retain=retain,
            tolerable_failures=tolerable_failures,
            halt_alignment_s=halt_alignment_s,
            log_slots=log_slots,
            local_recovery=local or LocalRecoveryOptions(),
        )
        restart = RestartOptions(max_failures=max_failures, backoff_s=0.05, max_backoff_s=0.2)
        start = RestoreOptions(restore, origin=origin)
        tuning = Tuning(max_chain=max_chain)
        return JobOptions("ledger", "ledger", snapshots, restart, start, tuning, min_parallelism)

    def start(
        self,
        launcher: Launcher | None = None,
        patience: Patience | None = None,
        election: Election | None = None,
        **options: Any,
    ) -> RemoteJob:
        job = RemoteJob(
            "ledger",
            self.spec,
            self.options(**options),
            self.directory,
            launcher or ProcessLauncher(),
            patience,
            self.scaling,
            election,
        )
        STARTED.append(job)
        return job

    def expected(self) -> dict[int, list[int]]:
        ledger: dict[int, list[int]] = {}
        for id in range(self.count):
            ledger.setdefault(id % KEYS, []).append(id)
        return ledger

    def check(self) -> None:
        """Every id is in the state once and in the output once."""
        self.check_state()
        assert self.shelf.ids() == Counter(range(self.count))

    def check_state(self) -> None:
        """Every id is in the state once."""
        state = committed_state(open_storage(self.directory), self.spec, "ledger", "seen")
        assert {key: sorted(ids) for key, ids in state.items()} == self.expected()


def await_until(what: Callable[[], Any], why: str, timeout_s: float = PATIENCE_S) -> Any:
    """What a condition gives once it is true: for what other processes do, which tell nobody."""
    deadline = time.monotonic() + timeout_s
    while not (result := what()):
        assert time.monotonic() < deadline, f"after {timeout_s} s it is not true that {why}"
        time.sleep(0.01)
    return result


def complete_epochs(job: RemoteJob, attempt: int | None = None) -> int:
    """How many epochs the attempts of this process have completed, or one of them has."""
    own = {record.attempt for record in job.attempts()} if attempt is None else {attempt}
    return sum(record.status == "complete" and record.attempt in own for record in job.snapshots())


def await_attempt(job: RemoteJob, attempt: int, workers: int) -> dict[int, int]:
    """The process ids of the workers once an attempt runs and has completed an epoch."""
    await_until(
        lambda: complete_epochs(job, attempt) > 0 or job.is_over,
        f"attempt {attempt} has completed an epoch",
    )
    pids = {number: pid for number, (_, pid) in job.workers().items()}
    assert len(pids) == workers, f"attempt {attempt} has the workers {pids}: {job.attempts()}"
    return pids
