"""Backends for tests of windows that are meant to hold on all of them."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from mainstay.plan.planning import plan_of
from mainstay.testing.memory_disk import MemoryRocksSettings


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs keep their state in memory, or in RocksDB with its databases in memory."""
    if request.param == "heap":
        return

    def planned(graph: Any) -> Any:
        return replace(plan_of(graph), backend=MemoryRocksSettings(1 << 16))

    monkeypatch.setattr(import_module("mainstay.testing.run"), "plan_of", planned)
