"""A child that reads, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.reading import Child


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    child = Child()
    yield child
    child.close()
