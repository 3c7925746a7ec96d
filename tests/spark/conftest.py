"""One local Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from mainstay.spark.launch.session import local_session

    session = local_session(workers=4)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
