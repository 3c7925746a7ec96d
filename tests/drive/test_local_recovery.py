"""A worker that comes back on the same host reads its state there, and nothing from the storage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.drive.processes import ProcessLauncher
from mainstay.drive.remote_worker import Bootstrap
from mainstay.runtime.options import LocalRecoveryOptions
from mainstay.snapshot.object_storage import open_storage
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.backends.rocksdb.settings import RocksSettings
from mainstay.testing.inspect import latest_manifest
from tests.drive.ledger import PATIENCE_S, Ids, Ledger, LedgerJob, await_attempt, await_until
from tests.services.s3_proxy import GET, S3Proxy

WORKERS = 2


def in_a_bucket(folder: Path, backend: Any) -> LedgerJob:
    ledger = LedgerJob(folder, count=8_000, per_second=4_000.0, workers=WORKERS)
    ledger.directory = "s3://bucket/job"
    ledger.spec = replace(ledger.spec, backend=backend)
    return ledger


def has_state(ledger: LedgerJob, *, in_databases: bool) -> bool:
    """Whether the latest epoch has state of every subtask, in files of databases or in any."""
    manifest = latest_manifest(open_storage(ledger.directory))
    subtasks = () if manifest is None else manifest.operators["ledger"].subtasks
    return bool(subtasks) and all(
        any(ref.parts or not in_databases for ref in each.chain) for each in subtasks
    )


@pytest.mark.parametrize("kind", ["heap", "rocksdb"])
def test_a_worker_that_was_killed_reads_no_state_from_the_storage(
    tmp_path: Path, proxy: S3Proxy, kind: str
) -> None:
    databases = RocksSettings(32 << 20, str(tmp_path / "local"))
    ledger = in_a_bucket(tmp_path, HeapSettings() if kind == "heap" else databases)
    local = LocalRecoveryOptions(directory=str(tmp_path / "local"))
    job = ledger.start(local=local, max_chain=3)
    pids = await_attempt(job, 1, WORKERS)
    await_until(
        lambda: has_state(ledger, in_databases=kind == "rocksdb") or job.is_over,
        "there is state in an epoch",
    )
    proxy.forget()
    os.kill(pids[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert proxy.count(kind=GET, key="/state/") == 0
    recovery = job.recoveries()[-1]
    assert recovery.local_bytes > 0
    assert recovery.stored_bytes == 0
    ledger.check()


def test_a_host_without_copies_fetches_each_file_of_a_database_once(
    tmp_path: Path, proxy: S3Proxy
) -> None:
    ledger = in_a_bucket(tmp_path, RocksSettings(32 << 20, str(tmp_path / "local")))
    local = LocalRecoveryOptions(directory=str(tmp_path / "local"))
    job = ledger.start(local=local, max_chain=3)
    pids = await_attempt(job, 1, WORKERS)
    await_until(
        lambda: has_state(ledger, in_databases=True) or job.is_over, "there is state in databases"
    )
    shutil.rmtree(tmp_path / "local" / "cache")
    proxy.forget()
    os.kill(pids[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    fetched = Counter(each.key for each in proxy.seen(kind=GET, key=".sst"))
    assert fetched
    assert set(fetched.values()) == {1}
    assert job.recoveries()[-1].stored_bytes > 0
    ledger.check()


class Permuting(ProcessLauncher):
    """Has two hosts, each with a folder of its own for copies; of two attempts in a row neither
    starts a process where the one before started it."""

    def __init__(self, folders: list[Path]) -> None:
        super().__init__()
        self._folders = folders

    def _brief(self, process: subprocess.Popen[bytes], bootstrap: Bootstrap, number: int) -> None:
        assert bootstrap.copies is not None
        host = (number + bootstrap.attempt) % len(self._folders)
        copies = replace(bootstrap.copies, directory=str(self._folders[host]))
        super()._brief(process, replace(bootstrap, copies=copies), number)


def test_workers_go_where_their_state_is_although_processes_start_elsewhere(
    tmp_path: Path, proxy: S3Proxy
) -> None:
    ledger = in_a_bucket(tmp_path, HeapSettings())
    launcher = Permuting([tmp_path / "one", tmp_path / "other"])
    job = ledger.start(launcher, local=LocalRecoveryOptions(), max_chain=3)
    proxy.forget()
    for attempt in (1, 2):
        pids = await_attempt(job, attempt, WORKERS)
        await_until(
            lambda: has_state(ledger, in_databases=False) or job.is_over,
            "there is state in an epoch",
        )
        started = [process.pid for process in launcher.processes[attempt]]
        assert [pids[0], pids[1]] == (started if attempt == 1 else started[::-1])
        os.kill(pids[1], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert proxy.count(kind=GET, key="/state/") == 0
    recoveries = job.recoveries()
    assert len(recoveries) == 2
    assert all(each.local_bytes > 0 and each.stored_bytes == 0 for each in recoveries)
    ledger.check()


@pytest.mark.parametrize("is_on", [None, True])
def test_an_embedded_job_keeps_copies_if_it_is_told_to(
    tmp_path: Path, proxy: S3Proxy, is_on: bool | None
) -> None:
    env = ms.Environment(
        spark="embedded",
        parallelism=2,
        snapshots=ms.Snapshots(
            "s3://bucket/job", every="50ms", local_recovery=is_on, local_dir=tmp_path / "local"
        ),
        restart=ms.Restart(backoff="10ms"),
    )
    out = Memory()
    ids = env.source(Ids(4_000, 4_000.0), uid="ids").key_by("k")
    ids.process(Ledger(), "k long, id long", uid="ledger").sink(out, uid="out")
    job = env.start("kept")
    await_until(lambda: len(out.rows()) > 0 or job.is_over, "an epoch with state is complete")
    proxy.forget()
    job.crash_worker(1)
    assert job.wait(PATIENCE_S) == "finished"
    (recovery,) = job.recoveries()
    if is_on:
        assert proxy.count(kind=GET, key="/state/") == recovery.stored_bytes == 0
        assert recovery.local_bytes > 0
    else:
        assert recovery.local_bytes == 0
        assert 0 < recovery.stored_bytes <= proxy.size_bytes(kind=GET, key="/state/")
    assert Counter(row[1] for row in out.rows()) == Counter(range(4_000))
