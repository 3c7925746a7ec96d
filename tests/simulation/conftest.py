"""Simulated jobs make many objects that die young. To look for cycles among them after every 700,
as Python does, takes a tenth of the time of a seed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

YOUNG = 50_000


@pytest.fixture(scope="module", autouse=True)
def seldom_collected() -> Iterator[None]:
    """Look for cycles after as many new objects; the rest as before."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, *before[1:])
    yield
    gc.set_threshold(*before)
