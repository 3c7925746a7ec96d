"""From the kill of a worker to the next row that a job puts out, by the number of keys.

Two workers in processes of their own, one of which is ended by SIGKILL while rows come as quickly
as they are taken. Each backend says what it read from the snapshot storage to start again; what
the new attempt puts out first is noted by the sink. Backends are measured in turn.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import mainstay as ms
from benchmarks.external.database import PROTOCOLS, backend_named, emptied, running_server
from benchmarks.ours.visits import Visits, await_full
from benchmarks.report import Size, Table, count, median, millis
from mainstay.api.backends import backend_settings
from mainstay.bench.orders import SCHEMA
from mainstay.bench.running import (
    PROCESSES,
    SOURCE,
    await_epoch,
    await_true,
    environment,
    start,
)
from mainstay.bench.totals import TOTALS_SCHEMA, RunningTotal
from mainstay.connectors import Sink, SinkContext, SinkWriter
from mainstay.connectors.generators import Generate
from mainstay.drive.remote_job import RemoteJob
from mainstay.runtime.status import Recovery
from mainstay.state.backends.contract import KeyedBackend, Place, Restore
from tests.services.postgres import PostgresServer

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
BACKENDS = ("heap", "rocksdb", *PROTOCOLS)
KILLS = {10_000: 5, 100_000: 5, 1_000_000: 3, 5_000_000: 1}
EVERY_S = 0.5


class Counted:
    """A storage that counts the bytes that are read."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.read_bytes = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data: bytes = self._inner.read(path, start, length)
        self.read_bytes += len(data)
        return data


@dataclass(frozen=True)
class Watched:
    """The settings of a backend that writes down what a restore of it read and took."""

    inner: Any
    folder: str

    def open(self, place: Place) -> KeyedBackend:
        backend: Any = self.inner.open(place)
        restore = backend.restore

        def watched(given: Restore) -> Any:
            storage = Counted(given.storage)
            read_bytes = 0

            def read(ref: Any) -> Any:
                nonlocal read_bytes
                read_bytes += ref.file.size_bytes
                return given.read(ref)

            began = time.perf_counter()
            found = restore(replace(given, storage=storage, read=read))
            figures = [read_bytes + storage.read_bytes, time.perf_counter() - began]
            note(self.folder, f"restore-{place.attempt}-{place.groups.first}", figures)
            return found

        backend.restore = watched
        return backend  # type: ignore[no-any-return]


class FirstRows(Sink):
    """Writes down when the first rows of each attempt came out."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, context: SinkContext) -> SinkWriter:
        return _FirstRowsWriter(self.folder, f"first-{context.attempt}-{context.subtask}")

    def commit(self, handles: Sequence[bytes]) -> None:
        """Nothing is ever prepared."""


class _FirstRowsWriter(SinkWriter):
    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name
        self._is_noted = False

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._is_noted:
            self._is_noted = True
            note(self._folder, self._name, time.time())

    def prepare(self, epoch: int) -> bytes | None:
        return None


def note(folder: str, name: str, what: Any) -> None:
    draft = Path(folder, f".{name}.{os.getpid()}")
    draft.write_text(json.dumps(what))
    draft.replace(Path(folder, name))


def noted(folder: str, pattern: str) -> list[Any]:
    return [json.loads(path.read_text()) for path in Path(folder).glob(pattern)]


@dataclass(frozen=True, slots=True)
class Kill:
    """What one kill came to."""

    first_row_s: float
    restore_s: float
    read_bytes: int
    recovery: Recovery

    @property
    def own_s(self) -> float:
        return self.first_row_s - self.recovery.relaunch_s - self.recovery.wait_s


def kills(server: PostgresServer, name: str, keys: int, times: int) -> list[Kill]:
    """Fill a job's state, then kill a worker some times."""
    emptied(server)
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        notes = str(Path(folder, "notes"))
        os.mkdir(notes)
        snapshots = str(Path(folder, "snapshots"))
        state = Watched(backend_settings(backend_named(name, server)), notes)
        env = environment(
            snapshots, every_s=EVERY_S, state=state, restart=ms.Restart(backoff="100ms")
        )
        source = Generate(SCHEMA, Visits(keys))
        totals = env.source(source, uid=SOURCE).key_by("key")
        totals.process(RunningTotal(), TOTALS_SCHEMA, uid="totals").sink(
            FirstRows(notes), uid="out"
        )
        job = start(env, "bench", PROCESSES)
        try:
            _await_full(job, snapshots, keys)
            return [_kill(job, number, notes) for number in range(times)]
        finally:
            job.cancel()


def _kill(job: RemoteJob, number: int, notes: str) -> Kill:
    await_epoch(job, time.time())
    workers = job.workers()
    _, pid = workers[number % len(workers)]
    before = len(job.recoveries())
    killed_at = time.time()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await_true(job, lambda: len(job.recoveries()) > before, "the recovery")
    attempt = job.attempts()[-1].attempt
    await_true(job, lambda: bool(noted(notes, f"first-{attempt}-*")), "a row")
    first = min(noted(notes, f"first-{attempt}-*")) - killed_at
    restores = noted(notes, f"restore-{attempt}-*")
    return Kill(
        first,
        max(took_s for _, took_s in restores),
        sum(read_bytes for read_bytes, _ in restores),
        job.recoveries()[before],
    )


def _await_full(job: RemoteJob, directory: str, keys: int) -> None:
    """Wait for a state that is filled as slowly as it may be."""
    for _ in range(10):
        try:
            return await_full(job, directory, keys)
        except TimeoutError:
            continue
    await_full(job, directory, keys)


def measure(size: Size) -> Iterator[Table]:
    table = Table(
        "From the kill of a worker to the next row",
        ["keys", "state", "kills", "first row ms", "without start ms", "restore ms", "bytes read"],
        "Two workers in processes, one of them ended by SIGKILL under full load, an epoch every "
        f"{EVERY_S:g} s; medians. *first row*: from the kill until the next attempt puts its first "
        "row out; *without start*: without the time in which the processes of that attempt start, "
        "and without the 100 ms that the restart strategy waits. *restore*: what the restore of a "
        "subtask took, of the slower one. *bytes read*: from the snapshot storage, by both.",
    )
    with running_server() as server:
        for keys in SIZES:
            for name in BACKENDS:
                found = kills(server, name, size.of(keys), KILLS[keys])
                table.add(
                    count(size.of(keys)),
                    name,
                    len(found),
                    millis(median([each.first_row_s for each in found])),
                    millis(median([each.own_s for each in found])),
                    millis(median([each.restore_s for each in found])),
                    count(median([each.read_bytes for each in found])),
                )
                print(table.rows[-1], flush=True)
    yield table
