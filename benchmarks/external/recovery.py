"""From the loss of a worker to the next row that a job puts out, by the number of keys.

Two workers, one of which is ended at once while rows come at a steady pace: by SIGKILL where
workers are processes, and by dropping it where they share one. Each backend says what it read from
the snapshot storage to start again; when the next attempt puts its first row out is noted by the
sink. Backends are measured in turn.
"""

from __future__ import annotations

import json
import os
import random
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
from benchmarks.external.database import PROTOCOLS, asked, backend_named, emptied, running_server
from benchmarks.external.database import SCHEMA as SCHEMA_OF_STATE
from benchmarks.ours.visits import Visits
from benchmarks.report import Size, Table, count, median, millis
from mainstay.api.backends import backend_settings
from mainstay.bench.orders import SCHEMA
from mainstay.bench.running import (
    SOURCE,
    await_epoch,
    await_true,
    start,
)
from mainstay.bench.totals import TOTALS_SCHEMA, RunningTotal
from mainstay.connectors import Polled, Sink, SinkContext, SinkWriter, Source, Split, SplitReader
from mainstay.schema import to_schema
from mainstay.state.backends.contract import KeyedBackend, Place, Restore
from tests.services.postgres import PostgresServer

EMBEDDED = "embedded"
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
BACKENDS = ("heap", "rocksdb", "logged")
SIZES_BY_PROTOCOL = (10_000, 100_000, 1_000_000)
KILLS = {10_000: 7, 100_000: 7, 1_000_000: 5, 5_000_000: 3}
EVERY_S = 0.5
ROWS_PER_S = 5_000
PLACE = EMBEDDED
"""Where workers run. The start of processes takes the same time with every backend, and on a busy
machine ten times as long as all else."""


class Filling(Source):
    """Every key once, as quickly as it goes; then rows at a steady pace."""

    schema = to_schema(SCHEMA)
    bounded = False

    def __init__(self, keys: int, notes: str) -> None:
        self.keys, self.visits, self.notes = keys, Visits(keys), notes

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        return [Split("all")]

    def read(self, split: Split, offset: Any) -> SplitReader:
        return _FillingReader(self, offset or 0)


class _FillingReader(SplitReader):
    def __init__(self, source: Filling, position: int) -> None:
        self._source, self._position = source, position
        self._paced_from: tuple[float, int] | None = None

    def poll(self, max_rows: int) -> Polled:
        rows = min(max_rows, self._due() - self._position)
        batch = self._source.visits(self._position, rows) if rows > 0 else None
        self._position += max(0, rows)
        return Polled(batch, self._position)

    def _due(self) -> int:
        if self._position < self._source.keys:
            return self._source.keys
        now = time.monotonic()
        if self._paced_from is None:
            self._paced_from = (now, self._position)
            note(self._source.notes, "filled", self._position)
        began, first = self._paced_from
        return first + int((now - began) * ROWS_PER_S)


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


def kills(server: PostgresServer, name: str, keys: int, times: int) -> list[Kill]:
    """Fill a job's state, then kill a worker some times."""
    emptied(server)
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as folder:
        notes = str(Path(folder, "notes"))
        os.mkdir(notes)
        snapshots = str(Path(folder, "snapshots"))
        state = Watched(backend_settings(backend_named(name, server)), notes)
        where = {"spark": EMBEDDED} if PLACE == EMBEDDED else {}
        restart = ms.Restart(backoff="100ms")
        # Epochs are retained as a user's are: deltas of older ones are folded.
        kept = ms.Snapshots(snapshots, every=EVERY_S)
        env = ms.Environment(parallelism=2, snapshots=kept, state=state, restart=restart, **where)
        totals = env.source(Filling(keys, notes), uid=SOURCE).key_by("key")
        totals.process(RunningTotal(), TOTALS_SCHEMA, uid="totals").sink(
            FirstRows(notes), uid="out"
        )
        job: Any = env.start("bench") if PLACE == EMBEDDED else start(env, "bench", PLACE)
        try:
            _await_full(job, notes)
            if name in PROTOCOLS:
                _await_applied(server, job, keys)
            return [_kill(job, number, notes) for number in range(times)]
        finally:
            job.cancel()


def _end_worker(job: Any, number: int) -> None:
    if PLACE == EMBEDDED:
        job.crash_worker(number % 2)
    else:
        with suppress(ProcessLookupError):
            os.kill(job.workers()[number % 2][1], signal.SIGKILL)


def _kill(job: Any, number: int, notes: str) -> Kill:
    await_epoch(job, time.time())
    time.sleep(random.Random(number).uniform(0, EVERY_S))  # at any moment between two epochs
    before, killed_at = len(job.recoveries()), time.time()
    _end_worker(job, number)
    await_true(job, lambda: len(job.recoveries()) > before, "the recovery")
    attempt = job.attempts()[-1].attempt
    await_true(job, lambda: bool(noted(notes, f"first-{attempt}-*")), "a row")
    first = min(noted(notes, f"first-{attempt}-*")) - killed_at - job.recoveries()[before].wait_s
    restores = noted(notes, f"restore-{attempt}-*")
    return Kill(
        first,
        max(took_s for _, took_s in restores),
        sum(read_bytes for read_bytes, _ in restores),
    )


def _await_full(job: Any, notes: str) -> None:
    """Wait until every key has a value, however long that takes, and for two more epochs."""
    while not noted(notes, "filled"):
        job.wait(1.0, progress=False)
    for _ in range(2):
        await_epoch(job, time.time())


def _await_applied(server: PostgresServer, job: Any, keys: int) -> None:
    """Wait until others see what the job was filled with."""
    while not (found := _shown_as(server)):
        job.wait(0.1, progress=False)  # the database follows behind
    ((name,),) = found
    while asked(server, f"SELECT count(*) FROM {SCHEMA_OF_STATE}.{name}") != [(keys,)]:
        job.wait(1.0, progress=False)


def _shown_as(server: PostgresServer) -> list[Any]:
    """The view or the table of the one state; none as long as there is none."""
    catalogs = {"view": "mainstay_state_views", "name": "mainstay_state_tables"}
    for column, catalog in catalogs.items():
        place = f"{SCHEMA_OF_STATE}.{catalog}"
        if asked(server, f"SELECT to_regclass('{place}')") != [(None,)]:
            return asked(server, f"SELECT {column} FROM {place}")
    return []


def measure(size: Size) -> Iterator[Table]:
    yield _measured(size, "From the loss of a worker to the next row", BACKENDS, SIZES)


def measure_protocols(size: Size) -> Iterator[Table]:
    title = "From the loss of a worker to the next row, by protocol"
    yield _measured(size, title, ("heap", *PROTOCOLS), SIZES_BY_PROTOCOL)


def _measured(size: Size, title: str, backends: Sequence[str], sizes: Sequence[int]) -> Table:
    table = Table(
        title,
        ["keys", "state", "losses", "first row ms", "restore ms", "bytes read"],
        f"Two workers ({PLACE}), one of them ended at {count(ROWS_PER_S)} rows/s, an epoch "
        f"every {EVERY_S:g} s; medians. *first row*: from the loss until the next attempt puts its "
        "first row out, without the 100 ms that the restart strategy waits. *restore*: what the "
        "restore of a subtask took, of the slower one. *bytes read*: from the snapshot storage, by "
        "both.",
    )
    with running_server() as server:
        for keys in sizes:
            for name in backends:
                found = kills(server, name, size.of(keys), KILLS[keys])
                table.add(
                    count(size.of(keys)),
                    name,
                    len(found),
                    millis(median([each.first_row_s for each in found])),
                    millis(median([each.restore_s for each in found])),
                    count(median([each.read_bytes for each in found])),
                )
                print(table.rows[-1], flush=True)
    return table
