"""A running job and a directory that others may ask; no test of these may change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import mainstay as ms
from tests.serve.jobs import running, shown, start
from tests.unit.drive.test_embedded import opened


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("running")


@pytest.fixture(scope="session")
def job_and_client(directory: Path) -> Iterator[tuple[Any, httpx.Client]]:
    # It runs as long as any test asks it, and a thousand of its epochs are known.
    with running(directory, snapshots=ms.Snapshots(directory, every="250ms")) as found:
        yield found


@pytest.fixture(scope="session")
def job(job_and_client: tuple[Any, httpx.Client]) -> Any:
    return job_and_client[0]


@pytest.fixture(scope="session")
def client(job_and_client: tuple[Any, httpx.Client]) -> httpx.Client:
    return job_and_client[1]


@pytest.fixture(scope="session")
def finished_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("finished")
    assert start(directory, source=opened(), ui=None).wait(60, progress=False) == "finished"
    return directory


@pytest.fixture(scope="session")
def offline(finished_directory: Path) -> Iterator[httpx.Client]:
    with shown(finished_directory) as found:
        yield found
