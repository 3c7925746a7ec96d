"""A shell with a registry of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.control.running import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
