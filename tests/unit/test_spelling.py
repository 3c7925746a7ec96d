"""Words as messages spell them."""

from __future__ import annotations

import pytest

from mainstay.errors import SlotsError
from mainstay.spelling import counted


def test_one_thing_is_not_many() -> None:
    shown = [counted(number, "epoch") for number in (0, 1, 2, 1000)]
    assert shown == ["0 epochs", "1 epoch", "2 epochs", "1,000 epochs"]


def test_one_free_slot_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    session = pytest.importorskip("mainstay.spark.launch.session")
    monkeypatch.setattr(session, "slots", lambda _: (3, 1))
    monkeypatch.setattr(session, "_has_lingering_tasks", lambda _: False)
    with pytest.raises(SlotsError, match="of which 1 is free"):
        session._require_slots(None, 2, 0)
    with pytest.raises(SlotsError, match="1 is its own and 1 is free"):
        session.check_more_slots(None, 3, 1)
