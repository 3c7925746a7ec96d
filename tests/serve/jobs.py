"""Real jobs that serve themselves, and clients that ask them by real HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import mainstay as ms
from mainstay.serve.server import Server
from mainstay.serve.stored import StoredView
from tests.unit.drive.test_embedded import Gated, Sum, Telling

PATIENCE_S = 30.0
API = "/api/v1"


def await_true(is_true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.01)


def start(directory: Path, source: Any = None, function: Any = None, **settings: Any) -> Any:
    """A job that has taken half of its rows and waits for the rest, unless its gate is open."""
    settings.setdefault("snapshots", ms.Snapshots(directory, every="50ms"))
    settings.setdefault("ui", True)
    env = ms.Environment(spark="embedded", parallelism=2, **settings)
    keyed = env.source(source or Gated(), uid="numbers").key_by("k")
    keyed.process(function or Sum(), "k long, n long, total long", uid="sums").sink(
        Telling(), uid="out"
    )
    return env.start("numbers")


def parts(url: str) -> tuple[str, str]:
    """The address and the token of a page."""
    address, _, token = url.partition("/#token=")
    return address, token


def client_of(url: str) -> httpx.Client:
    address, token = parts(url)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=address, headers=headers, timeout=PATIENCE_S)


@contextmanager
def running(directory: Path, **settings: Any) -> Iterator[tuple[Any, httpx.Client]]:
    """A job half-way, with a complete epoch that holds all of its first half."""
    job = start(directory, **settings)
    client = client_of(job.url)
    try:
        await_true(lambda: half_is_committed(client), "half of the rows are committed")
        yield job, client
    finally:
        client.close()
        job.cancel()
        job.server.close()


def half_is_committed(client: httpx.Client) -> bool:
    asked = {"states": ["sums.total"]}
    found = client.post(f"{API}/query", json=asked)
    rows = found.json()["answers"][0]["rows"] if found.status_code == 200 else []
    return sum(row["total"] for row in rows) == sum(range(300))


@contextmanager
def shown(directory: Path) -> Iterator[httpx.Client]:
    """A directory that is served without a job."""
    server = Server(ms.Ui())
    server.show(StoredView(str(directory)))
    try:
        with client_of(server.url) as client:
            yield client
    finally:
        server.close()
