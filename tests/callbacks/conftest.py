"""What is tried again is tried again soon: the tests ask whether it is, not after how long."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.runtime.retry.RETRY_S", 0.01)
