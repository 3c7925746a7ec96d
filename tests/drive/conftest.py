"""Nothing may stay behind: no process, no thread, no socket, no file outside a test's folder."""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.drive.ledger import STARTED, await_until
from tests.services.s3 import S3Server
from tests.services.s3_proxy import S3Proxy

_TAG = "MAINSTAY_TEST"


def tagged(tag: str) -> list[psutil.Process]:
    """Every process that was started under a test, by whomever, and is alive."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(_TAG) == tag and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def own_sockets() -> int:
    return len(psutil.Process().net_connections("all"))


def end_jobs() -> None:
    """A test that failed leaves its job: it would start workers under the tests that follow."""
    jobs = [job for job in STARTED if not job.is_over]
    STARTED.clear()
    for job in jobs:
        job.cancel()


@pytest.fixture(autouse=True)
def nothing_stays_behind(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    tag, scratch = uuid.uuid4().hex, tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv(_TAG, tag)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    threads, sockets = set(threading.enumerate()), own_sockets()
    yield
    end_jobs()
    processes = [process for process in tagged(tag) if process != psutil.Process()]
    # One that is about to end may need a moment on a busy machine.
    _, processes = psutil.wait_procs(processes, timeout=10.0)
    for process in processes:
        process.kill()
    assert processes == []
    assert list(Path(scratch).iterdir()) == []
    await_until(lambda: set(threading.enumerate()) <= threads, "the threads have ended", 20.0)
    await_until(lambda: own_sockets() <= sockets, "the sockets of this process are closed", 20.0)


@pytest.fixture
def proxy(nothing_stays_behind: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Proxy]:
    """In front of an S3 server, which ``s3://`` means from here on."""
    server = S3Server()
    proxy = S3Proxy(server.port)
    for name, value in proxy.environment.items():
        monkeypatch.setenv(name, value)
    yield proxy
    proxy.close()
    server.close()
