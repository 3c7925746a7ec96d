"""Which tests share a process: those that share a Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

SPARK = Path(__file__).parent / "spark"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SPARK in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
