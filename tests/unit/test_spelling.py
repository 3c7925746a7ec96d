"""Words as messages spell them."""

from __future__ import annotations

import pytest

from mainstay.errors import SlotsError
from mainstay.spelling import counted


def test_one_thing_is_not_many() -> None:
    shown = [counted(number, "epoch") for number in (0, 1, 2, 1000)]
    assert shown == ["0 epochs", "1 epoch", "2 epochs", "1,000 epochs"]


def test_one_free_slot_is_free() -> None:
    slots = pytest.importorskip("mainstay.spark.launch.slots")
    with pytest.raises(SlotsError, match="of which 1 is free"):
        slots.require_slots(lambda: slots.Slots(3, 1), lambda: False, lambda: False, 2, 0)
    with pytest.raises(SlotsError, match="1 is its own and 1 is free"):
        slots.require_more_slots(1, 3, 1)
