"""The soak of the whole product, in short: a few minutes, and few events."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.services.kafka import ServiceMissingError
from tests.services.postgres import ServiceMissing
from tests.together.plan import plan
from tests.together.soak import Soak

pytestmark = [
    pytest.mark.soak,
    pytest.mark.spark,
    pytest.mark.services,
    pytest.mark.xdist_group("together"),
]

MINUTES = 3.0
APART_S = (15.0, 30.0)


@pytest.mark.parametrize("seed", [3])
def test_everything_together_is_exact_under_failures(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with ExitStack() as closing:
        try:
            soak = Soak(tmp_path, seed, closing)
        except (ServiceMissingError, ServiceMissing) as missing:
            pytest.skip(str(missing))
        report = soak.run(MINUTES, plan(seed, MINUTES * 60, APART_S))
    print(report.text())
    assert report.differences == []
    assert sum(report.done.values()) > 0
