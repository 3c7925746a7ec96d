"""Without the driver there is nothing to test here."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def needs_the_driver() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
