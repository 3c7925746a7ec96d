"""Damaged snapshots and savepoints: the error names the file, or the job goes on from before it.

A history and a savepoint are made once for each backend. Each case damages a copy: whatever is
done to whichever file, no job goes on with another state than the right one.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Generate, Memory
from mainstay.errors import RestoreError
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import EpochCommitted, read_history
from mainstay.snapshot.manifest import Manifest, SegmentRef
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state
from tests.drive.ledger import PATIENCE_S, await_until

ROWS = 30_000
KEYS = 60
EXPECTED = dict.fromkeys(range(KEYS), ROWS // KEYS)


class Count(ms.KeyedProcess):
    """Counts the rows of each key."""

    n = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        return ctx.key, self.n.get()


def numbered(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"k": [id % KEYS for id in range(first, first + rows)]})


def environment(folder: Path, backend: str, per_second: float | None = None, **options: Any) -> Any:
    """The job over the snapshots in a folder, at full speed if nothing else is said."""
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(folder / "snapshots", every="30ms", retain=3),
        restart=ms.Restart(backoff="10ms"),
        state=ms.RocksDB(memory="16MiB", directory=folder / "db")
        if backend == "rocksdb"
        else "heap",
        **options,
    )
    source = Generate("k long", numbered, end=ROWS, rows_per_second=per_second)
    counted = (
        env.source(source, uid="numbers").key_by("k").process(Count(), "k long, n long", uid="n")
    )
    counted.sink(Memory(), uid="out")
    return env


def check_result(env: Any, folder: Path) -> None:
    """Run the job to its end: every row has been counted once."""
    assert env.start("counting").wait(PATIENCE_S) == "finished"
    storage = open_storage(str(folder / "snapshots"))
    assert committed_state(storage, env.plan(), "n", "n") == EXPECTED


# ---------------------------------------------------------------- what is damaged


def latest(folder: Path) -> Manifest:
    storage = open_storage(str(folder / "snapshots"))
    return read_manifest(storage, latest_slot(folder).manifest)


def latest_slot(folder: Path) -> EpochCommitted:
    record = read_history(open_storage(str(folder / "snapshots"))).latest_epoch
    assert record is not None
    return record


def segments(folder: Path) -> list[SegmentRef]:
    return [ref for task in latest(folder).operators["n"].subtasks for ref in task.chain]


def has_all_kinds(folder: Path) -> bool:
    """Whether the latest epoch has a base, and segments after it."""
    bases = [ref.is_base for ref in segments(folder)]
    return any(bases) and not all(bases)


def made(folder: Path, backend: str) -> Path:
    """A history that was stopped in the middle, and a savepoint of it."""
    job = environment(folder, backend, per_second=400.0).start("counting")
    await_epochs(job, 12)
    job.savepoint(folder / "saved", PATIENCE_S)
    job.stop(timeout=PATIENCE_S)
    while not has_all_kinds(folder):
        # Where segments were merged just before: a few more epochs.
        job = environment(folder, backend, per_second=400.0, restore="latest").start("counting")
        await_epochs(job, 3)
        job.stop(timeout=PATIENCE_S)
    return folder


def await_epochs(job: Any, epochs: int) -> None:
    await_until(
        lambda: sum(record.status == "complete" for record in job.snapshots()) >= epochs,
        f"{epochs} epochs are complete",
    )


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a backend's history, made when it is first asked for."""
    found: dict[str, Path] = {}

    def history(backend: str) -> Path:
        if backend not in found:
            found[backend] = made(tmp_path_factory.mktemp(backend), backend)
        return found[backend]

    return history


def _slot(folder: Path, number: int) -> str:
    return sorted(p.name for p in (folder / "snapshots" / "log").iterdir())[number]


def _parts(folder: Path, ending: str) -> str:
    ref = next(ref for ref in segments(folder) if ref.parts)
    names = json.loads((folder / "snapshots" / ref.file.path).read_bytes())["files"]
    return next(f"snapshots/{path}" for name, path in names.items() if ending in name)


FILES: dict[str, tuple[str, Callable[[Path], str]]] = {
    "the newest slot of the log": ("heap", lambda f: f"snapshots/log/{_slot(f, -1)}"),
    "the manifest": ("heap", lambda f: f"snapshots/{latest_slot(f).manifest.path}"),
    "a base": ("heap", lambda f: _segment(f, is_base=True)),
    "a segment": ("heap", lambda f: _segment(f, is_base=False)),
    "the description of a checkpoint": ("rocksdb", lambda f: _segment(f, is_base=True)),
    "the rows of a checkpoint": ("rocksdb", lambda f: _parts(f, ".sst")),
    "the manifest of a checkpoint": ("rocksdb", lambda f: _parts(f, "MANIFEST")),
    "the pointer of a checkpoint": ("rocksdb", lambda f: _parts(f, "CURRENT")),
    "the description of a savepoint": ("heap", lambda f: "saved/savepoint.json"),
    "keyed state of a savepoint": ("heap", lambda f: _saved(f, "state")),
    "operator state of a savepoint": ("heap", lambda f: _saved(f, "operator/numbers")),
    "keyed state of a savepoint of a database": ("rocksdb", lambda f: _saved(f, "state")),
}


def _segment(folder: Path, *, is_base: bool) -> str:
    """The newest of them, which the latest epoch needs."""
    paths = [ref.file.path for ref in segments(folder) if ref.is_base == is_base]
    return f"snapshots/{paths[-1]}"


def _saved(folder: Path, below: str) -> str:
    files = (folder / "saved" / below).rglob("*.parquet")
    return str(max(files, key=lambda p: p.stat().st_size).relative_to(folder))


def flipped(data: bytes) -> bytes:
    """One bit is another: of a digit where it is a document, so that it is a document still."""
    digits = [n for n, byte in enumerate(data) if chr(byte).isdigit() and n > len(data) // 2]
    place = digits[0] if data[:1] == b"{" else len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flipped,
    "truncated": lambda data: data[: len(data) * 2 // 3],
    "emptied": lambda data: b"",
    "deleted": lambda data: None,
}


def damage(file: Path, how: str) -> None:
    left = DAMAGES[how](file.read_bytes())
    if left is None:
        file.unlink()
    else:
        file.write_bytes(left)


def started(folder: Path, backend: str, path: str, **options: Any) -> Any:
    """The job that goes on from the history, or where that is damaged from the savepoint."""
    if path.startswith("saved/"):
        return environment(folder / "new", backend, restore=folder / "saved", **options)
    return environment(folder, backend, restore="latest", **options)


def copied(history: Path, folder: Path) -> Path:
    return Path(shutil.copytree(history, folder / "copy", ignore=shutil.ignore_patterns("db")))


# ---------------------------------------------------------------- the cases


def _cases() -> list[tuple[str, str]]:
    # Without its newest slot a log is whole: that of an older epoch.
    whole = ("the newest slot of the log", "deleted")
    return [(what, how) for what in FILES for how in DAMAGES if (what, how) != whole]


@pytest.mark.parametrize(("what", "how"), _cases())
def test_a_damaged_file_is_named(histories: Any, tmp_path: Path, what: str, how: str) -> None:
    backend, path_in = FILES[what]
    folder = copied(histories(backend), tmp_path)
    path = path_in(folder)
    damage(folder / path, how)
    job = started(folder, backend, path).start("counting")
    with pytest.raises(RestoreError, match=re.escape(path.partition("/")[2])):
        job.wait(PATIENCE_S)


@pytest.mark.parametrize("what", ["the manifest", "a segment"])
@pytest.mark.parametrize("how", DAMAGES)
def test_what_only_the_latest_epoch_needs_is_done_without_when_asked(
    histories: Any, tmp_path: Path, what: str, how: str
) -> None:
    backend, path_in = FILES[what]
    folder = copied(histories(backend), tmp_path)
    damage(folder / path_in(folder), how)
    check_result(environment(folder, backend, restore="latest", fall_back=True), folder)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_files_that_somebody_collected_are_named(
    histories: Any, tmp_path: Path, backend: str
) -> None:
    folder = copied(histories(backend), tmp_path)
    gone = sorted((folder / "snapshots" / "state" / "n").rglob("*.*"))[::2]
    for file in gone:
        file.unlink()
    needed = {file.path for file in latest(folder).files()}
    names = [str(file.relative_to(folder / "snapshots")) for file in gone]
    job = environment(folder, backend, restore="latest").start("counting")
    with pytest.raises(RestoreError, match="|".join(re.escape(n) for n in names if n in needed)):
        job.wait(PATIENCE_S)


def test_a_log_without_its_last_slots_is_the_history_of_an_older_epoch(
    histories: Any, tmp_path: Path
) -> None:
    folder = copied(histories("heap"), tmp_path)
    for _ in range(2):
        (folder / "snapshots" / "log" / _slot(folder, -1)).unlink()
    check_result(environment(folder, "heap", restore="latest"), folder)


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_what_is_whole_is_restored(histories: Any, tmp_path: Path, backend: str) -> None:
    folder = copied(histories(backend), tmp_path)
    check_result(environment(folder, backend, restore="latest"), folder)
    other = environment(folder / "new", backend, restore=folder / "saved")
    check_result(other, folder / "new")
