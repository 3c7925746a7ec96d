"""A cluster over several hosts with a driver on it, and one with a Connect server and a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.driving import RemoteDriver
from tests.services.connect_hosts import ConnectHosts
from tests.services.hosts import why_not
from tests.services.spark_hosts import SparkHosts


@pytest.fixture(scope="session")
def _driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDriver]:
    _require_hosts()
    with SparkHosts(tmp_path_factory.mktemp("hosts")) as cluster:
        yield RemoteDriver(cluster)


@pytest.fixture(scope="session")
def _client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDriver]:
    _require_hosts()
    pytest.importorskip("grpc", reason="mainstay[connect] is not installed")
    with ConnectHosts(tmp_path_factory.mktemp("connect")) as cluster:
        yield RemoteDriver(cluster)


@pytest.fixture
def driver(_driver: RemoteDriver) -> Iterator[RemoteDriver]:
    """The driver, with every host as it should be before a test and after it."""
    yield from _as_it_should_be(_driver)


@pytest.fixture
def client(_client: RemoteDriver) -> Iterator[RemoteDriver]:
    """A client of a Connect server, in the same manner."""
    yield from _as_it_should_be(_client)


def _require_hosts() -> None:
    pytest.importorskip("pyspark")
    if missing := why_not():
        pytest.skip(f"no hosts: {missing}")


def _as_it_should_be(driver: RemoteDriver) -> Iterator[RemoteDriver]:
    driver.await_all_slots()
    yield driver
    for name in driver.cluster.hosts.names:
        driver.cluster.hosts.mend(name)
    driver.tell("cancel")
