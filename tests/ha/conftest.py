"""Servers of ZooKeeper, one and an ensemble of three, and drivers that are ended with a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ha.drivers import Drivers
from tests.services.zookeeper import ZooKeeperServers, why_not


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServers]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with ZooKeeperServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def ensemble() -> Iterator[ZooKeeperServers]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with ZooKeeperServers(3) as servers:
        yield servers


@pytest.fixture
def drivers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Drivers]:
    made = Drivers(tmp_path, deaths=getattr(request, "param", 0))
    yield made
    for driver in made.alive:
        driver.kill()
