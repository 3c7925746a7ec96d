"""Servers of ZooKeeper for the tests of this folder: one, and an ensemble of three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
