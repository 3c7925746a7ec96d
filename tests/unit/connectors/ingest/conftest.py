"""What the tests of the ingest log share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.connectors.ingest.logs import Written


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)
