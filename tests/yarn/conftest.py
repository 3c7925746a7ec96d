"""One YARN cluster for all tests here; where there can be none they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.yarn import ServiceMissingError, YarnCluster


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    pytest.importorskip("pyspark")
    try:
        cluster = YarnCluster(tmp_path_factory.mktemp("yarn"))
    except ServiceMissingError as missing:
        pytest.skip(f"no YARN cluster: {missing}")
    with cluster:
        yield cluster
