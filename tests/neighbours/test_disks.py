"""Disks that are full or read-only in the middle of a job: nothing is lost, and it goes on after.

Snapshots, the output of a sink, the database of state and the copies for local recovery are each
on a small disk of their own. Every row must be counted and written once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstay as ms
from mainstay.connectors import FileSink, Generate, read_committed
from mainstay.errors import MainstayError, SnapshotStorageError
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import await_until
from tests.neighbours.disks import SmallDisk

PATIENCE_S = 120.0
KEYS = 7
ROWS = 1_200


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk")
    yield disk
    disk.remove()


class Count(ms.KeyedProcess):
    """Counts the rows of each key, and keeps a text of them that grows."""

    n = ms.ValueState("long")
    rows = ms.ListState("string")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        self.rows.add(f"{row.id}" * 50)
        return row.id, ctx.key, self.n.get()


def numbered(first: int, count: int) -> pa.RecordBatch:
    ids = list(range(first, first + count))
    return pa.record_batch({"id": ids, "k": [n % KEYS for n in ids]})


class DiskJob:
    """The job, with each of its places below a folder unless the disk is for that."""

    def __init__(self, folder: Path, disk: SmallDisk, what: str, *, rows_per_second: float) -> None:
        self.disk = disk
        self.places = {
            each: (disk.place if each == what else folder) / each
            for each in ("snapshots", "out", "database", "copies")
        }
        self._rows_per_second = rows_per_second

    def start(self, **options: Any) -> Any:
        snapshots = {"every": "50ms", "tolerable_failures": 10_000, **options}
        env = ms.Environment(
            spark="embedded",
            snapshots=ms.Snapshots(
                self.places["snapshots"],
                local_recovery=True,
                local_dir=self.places["copies"],
                **snapshots,
            ),
            restart=ms.Restart(max_failures=10_000, backoff="50ms", max_backoff="200ms"),
            restore="latest-or-new",
            state=ms.RocksDB("16MiB", self.places["database"]),
        )
        source = Generate(
            "id long, k long", numbered, end=ROWS, rows_per_second=self._rows_per_second
        )
        counted = (
            env.source(source, uid="rows")
            .key_by("k")
            .process(Count(), "id long, k long, n long", uid="count")
        )
        counted.sink(FileSink(self.places["out"]), uid="out")
        return env.start("disk")

    def check(self) -> None:
        found = read_committed(self.places["out"]).to_pylist()
        assert Counter(row["id"] for row in found) == Counter(range(ROWS))
        assert Counter((row["k"], row["n"]) for row in found) == Counter(
            (key, n + 1) for key in range(KEYS) for n in range(len(range(key, ROWS, KEYS)))
        )


def complete(job: Any) -> int:
    return sum(record.status == "complete" for record in job.snapshots())


def troubles(job: Any) -> int:
    """Epochs and attempts that have failed so far."""
    failed = sum(record.status == "failed" for record in job.snapshots())
    return failed + len(job.attempts()) - 1


def begun(job: Any) -> None:
    await_until(lambda: complete(job) >= 2, "two epochs are complete", PATIENCE_S)


@pytest.mark.parametrize(
    "what",
    ["snapshots", *(pytest.param(each, marks=pytest.mark.soak) for each in ("out", "database"))],
)
def test_a_disk_that_is_full_for_a_while_costs_time_alone(
    tmp_path: Path, disk: SmallDisk, what: str
) -> None:
    ledger = DiskJob(tmp_path, disk, what, rows_per_second=400.0)
    job = ledger.start()
    begun(job)
    disk.fill()
    await_until(lambda: troubles(job) >= 2 or job.problems(), "the job has noticed", PATIENCE_S)
    disk.make_room()
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()


@pytest.mark.soak
def test_copies_for_local_recovery_are_done_without_when_their_disk_is_full(
    tmp_path: Path, disk: SmallDisk
) -> None:
    ledger = DiskJob(tmp_path, disk, "copies", rows_per_second=400.0)
    disk.fill()
    job = ledger.start()
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    assert troubles(job) == 0
    ledger.check()


@pytest.mark.soak
@pytest.mark.parametrize("what", ["snapshots", "out"])
def test_a_disk_that_is_read_only_for_a_while_costs_time_alone(
    tmp_path: Path, disk: SmallDisk, what: str
) -> None:
    ledger = DiskJob(tmp_path, disk, what, rows_per_second=400.0)
    job = ledger.start()
    begun(job)
    await_until(disk.make_read_only, "nobody writes just now", PATIENCE_S)
    await_until(lambda: troubles(job) >= 1 or job.problems(), "the job has noticed", PATIENCE_S)
    disk.make_writable()
    assert job.wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()


@pytest.mark.soak
def test_a_disk_that_stays_full_ends_the_job_with_its_reason_and_the_job_goes_on_later(
    tmp_path: Path, disk: SmallDisk
) -> None:
    ledger = DiskJob(tmp_path, disk, "snapshots", rows_per_second=400.0)
    job = ledger.start(tolerable_failures=1)
    begun(job)
    disk.fill()
    reason = await_until(
        lambda: next((each.cause for each in job.failures()), ""), "an attempt failed", PATIENCE_S
    )
    assert "No space left" in reason
    assert str(disk.place) in reason
    job.cancel()
    disk.make_room()
    again = ledger.start()
    assert again.wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()


# ---------------------------------------------------------------- the storage by itself


def test_a_full_disk_is_named_and_keeps_no_part_of_a_file(disk: SmallDisk) -> None:
    storage = open_storage(str(disk.place / "snapshots"))
    storage.write("epochs/1", b"1")
    disk.fill()
    for store in (storage.write, storage.create):
        with pytest.raises(SnapshotStorageError, match=r"'state/f'.*No space left"):
            store("state/f", bytes(1 << 20))
    assert storage.list("") == ["epochs/1"]
    disk.make_room()
    storage.write("state/f", bytes(1 << 20))
    assert len(storage.read("state/f")) == 1 << 20


def test_a_read_only_disk_is_named(disk: SmallDisk) -> None:
    storage = open_storage(str(disk.place / "snapshots"))
    storage.write("epochs/1", b"1")
    assert disk.make_read_only()
    for store in (storage.write, storage.create):
        with pytest.raises(SnapshotStorageError, match=r"'state/f' in .*snapshots"):
            store("state/f", b"2")
    assert storage.read("epochs/1") == b"1"
    disk.make_writable()


def test_state_on_a_full_disk_says_what_to_do(disk: SmallDisk) -> None:
    from mainstay.state.backends.rocksdb.database import RocksDatabase
    from mainstay.state.backends.rocksdb.memory import shared_memory
    from mainstay.state.backends.rocksdb.settings import RocksSettings

    disk.fill()
    with pytest.raises(MainstayError, match=r"No space left.*Make room on that disk"):
        RocksDatabase(disk.place / "db", shared_memory(RocksSettings(16 << 20)))


@pytest.mark.mutation
def test_a_job_that_loses_rows_is_noticed(tmp_path: Path, disk: SmallDisk) -> None:
    ledger = DiskJob(tmp_path, disk, "snapshots", rows_per_second=1e6)
    assert ledger.start().wait(PATIENCE_S, progress=False) == "finished"
    ledger.check()
    gone = next(path for path in ledger.places["out"].rglob("*.parquet"))
    rows = pq.read_table(gone)
    pq.write_table(rows.slice(1), gone)
    with pytest.raises((AssertionError, MainstayError)):
        ledger.check()
