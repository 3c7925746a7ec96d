"""One cluster over several hosts, and one driver on it, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.driving import RemoteDriver
from tests.services.hosts import why_not
from tests.services.spark_hosts import SparkHosts


@pytest.fixture(scope="session")
def _driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteDriver]:
    pytest.importorskip("pyspark")
    if missing := why_not():
        pytest.skip(f"no hosts: {missing}")
    with SparkHosts(tmp_path_factory.mktemp("hosts")) as cluster:
        yield RemoteDriver(cluster)


@pytest.fixture
def driver(_driver: RemoteDriver) -> Iterator[RemoteDriver]:
    """The driver, with every host as it should be before a test and after it."""
    _driver.await_all_slots()
    yield _driver
    for name in _driver.cluster.hosts.names:
        _driver.cluster.hosts.mend(name)
    _driver.tell("cancel")
