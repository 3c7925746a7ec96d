"""Jobs with state in RocksDB: on processes that are killed, and in this one, with exact results."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Generate, Memory
from mainstay.snapshot.object_storage import open_storage
from mainstay.state.backends.rocksdb.directory import new_directory, remove_leftovers
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.testing.inspect import latest_manifest
from tests.drive.ledger import PATIENCE_S, LedgerJob, await_attempt, await_until

WORKERS = 3
KEYS = 500


def test_workers_with_databases_are_killed_and_the_result_is_exact(tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=20_000, per_second=5_000.0)
    databases = tmp_path / "databases"
    ledger.spec = replace(ledger.spec, backend=RocksSettings(32 << 20, str(databases)))
    job = ledger.start()
    for attempt in (1, 2):
        pids = await_attempt(job, attempt, WORKERS)
        os.kill(pids[attempt], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) >= 3
    ledger.check()
    # All processes have ended, however they did: whoever comes next finds nothing in the way.
    remove_leftovers(databases)
    assert list(databases.iterdir()) == []


_HOLDER = """
import sys
from mainstay.state.backends.rocksdb.database import RocksDatabase
from mainstay.state.backends.rocksdb.directory import new_directory
from mainstay.state.backends.rocksdb.memory import shared_memory
from mainstay.state.backends.rocksdb.settings import RocksSettings
place = new_directory(sys.argv[1], "held")
database = RocksDatabase(place, shared_memory(RocksSettings(32 << 20)))
database.write([(b"key", b"value")])
print(place, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_leaves_is_removed_and_what_a_living_one_has_is_not(
    tmp_path: Path,
) -> None:
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    places = [Path(holder.stdout.readline().strip()) for holder in holders if holder.stdout]
    holders[0].kill()
    holders[0].wait()
    own = new_directory(str(tmp_path), "mine")
    assert not places[0].parent.exists()
    assert (places[1] / "CURRENT").exists()
    assert own.exists()
    assert remove_leftovers(tmp_path) == []
    holders[1].kill()
    holders[1].wait()
    assert remove_leftovers(tmp_path) == [places[1].parent]
    for holder in holders:
        holder.communicate()


def test_a_directory_taken_for_abandoned_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = fcntl.flock, []

    def late(file: Any, how: int) -> None:
        if how == fcntl.LOCK_EX and not removed:
            removed.extend(remove_leftovers(tmp_path))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    place = new_directory(str(tmp_path), "mine")
    assert removed
    assert list(tmp_path.iterdir()) == [place.parent]
    assert remove_leftovers(tmp_path) == []


def test_threads_that_begin_at_once_share_one_directory(tmp_path: Path) -> None:
    for number in range(50):
        together = threading.Barrier(4)
        root = tmp_path / str(number)

        def made(root: Path = root, together: threading.Barrier = together) -> Path:
            together.wait()
            return new_directory(str(root), "mine")

        with ThreadPoolExecutor(4) as threads:
            places = [made.result() for made in [threads.submit(made) for _ in range(4)]]
        assert all(place.is_dir() for place in places)
        assert list(root.iterdir()) == [places[0].parent]


class Count(ms.KeyedProcess):
    """Counts, and remembers what it counted in every kind of state."""

    n = ms.ValueState("long")
    ids = ms.ListState("long")
    by_parity = ms.MapState("string", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        self.ids.add(row.id)
        parity = "odd" if row.id % 2 else "even"
        self.by_parity.put(parity, self.by_parity.get(parity, 0) + 1)
        return ctx.key, self.n.get(), len(self.ids.get() or ())


def numbered(first: int, rows: int) -> Any:
    ids = list(range(first, first + rows))
    return pa.record_batch({"id": ids, "k": [id % KEYS for id in ids]})


def test_a_job_spills_takes_checkpoints_and_survives_a_crash(tmp_path: Path) -> None:
    rows = 20 * KEYS
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(tmp_path / "snapshots", every="50ms", retain=2),
        restart=ms.Restart(backoff="10ms"),
        state=ms.RocksDB(memory="16MiB", directory=tmp_path / "databases"),
    )
    out = Memory()
    source = Generate("id long, k long", numbered, end=rows, rows_per_second=2_000)
    stream = env.source(source, uid="numbers").key_by("k")
    stream.process(Count(), "k long, n long, ids long", uid="count").sink(out, uid="out")
    job = env.start("counting")
    await_until(
        lambda: sum(record.status == "complete" for record in job.snapshots()) >= 12,
        "epochs enough for a checkpoint are complete",
    )
    job.crash_worker(1)
    assert job.wait(PATIENCE_S) == "finished"
    found = out.rows()
    assert len(found) == rows
    assert Counter(found) == Counter(
        (key, n, n) for key in range(KEYS) for n in range(1, rows // KEYS + 1)
    )
    manifest = latest_manifest(open_storage(str(tmp_path / "snapshots")))
    assert manifest is not None
    chains = [subtask.chain for subtask in manifest.operators["count"].subtasks]
    assert all(any(ref.parts for ref in chain) for chain in chains)
    # Whatever no kept epoch reaches was deleted.
    stored = {
        str(path.relative_to(tmp_path / "snapshots"))
        for path in (tmp_path / "snapshots" / "state").rglob("*")
        if path.is_file()
    }
    assert {file.path for file in manifest.files()} <= stored
