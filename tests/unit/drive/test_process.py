"""The settings of a worker's process are given back when the worker has ended."""

from __future__ import annotations

import gc
import sys

import pytest

from mainstay.drive.process import SWITCH_INTERVAL_S, THRESHOLDS, settled_process


def settings() -> tuple[object, ...]:
    return gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count() > 0


def test_the_settings_hold_inside_and_are_given_back() -> None:
    before = settings()
    with settled_process():
        assert gc.get_threshold() == THRESHOLDS
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert gc.get_freeze_count() > 0
    assert settings() == before


def test_they_are_given_back_after_an_error_too() -> None:
    before = settings()
    with pytest.raises(ZeroDivisionError), settled_process():
        raise ZeroDivisionError
    assert settings() == before


def test_what_was_frozen_before_stays_frozen_and_nothing_is_added() -> None:
    gc.freeze()
    try:
        before, frozen = settings(), gc.get_freeze_count()
        with settled_process():
            # Other threads may let go of some that were frozen.
            assert 0 < gc.get_freeze_count() <= frozen
            assert gc.get_threshold() == THRESHOLDS
        assert settings() == before
    finally:
        gc.unfreeze()
