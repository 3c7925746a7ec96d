"""Defects that are planted in timers of compiled functions: drawn functions notice each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.runtime.compiled import arithmetic, dense, lending
from mainstay.runtime.operators import timed_compiled
from mainstay.state.keyed import frozen_keys
from mainstay.state.timer_handles import TimerHandle, moment
from tests.compiled.test_timers import timed_trial

MOST_SEEDS = 120
Plant = Callable[[pytest.MonkeyPatch], None]
Compiled = timed_compiled.TimedCompiledRows


def _forgotten_where_a_row_traps(patch: pytest.MonkeyPatch) -> None:
    put = dense.DenseState.put

    def without_timers(self: dense.DenseState, places: Any, kept: Any) -> None:
        if self.info.timer is None:
            put(self, places, kept)

    patch.setattr(dense.DenseState, "put", without_timers)


def _not_in_the_order_of_times(patch: pytest.MonkeyPatch) -> None:
    def kept_alone(self: TimerHandle, keys: Any, times: Any) -> None:
        frozen = frozen_keys(self.info, self._context, keys)
        self._table.put_many(frozen, self.info.value.from_array(times))

    patch.setattr(TimerHandle, "keep_column", kept_alone)


def _what_does_not_fire_in_its_slice_is_lost(patch: pytest.MonkeyPatch) -> None:
    def take_in(self: lending.TimerScratch, key: Any, at_us: int) -> None:
        self.live[key] = moment(at_us)
        self.timer_order.add(at_us, key)

    patch.setattr(lending.TimerScratch, "take_in", take_in)


def _what_is_not_lent_does_not_come_before(patch: pytest.MonkeyPatch) -> None:
    polled = Compiled._polled

    class Never:
        def first_us(self) -> None:
            return None

    def alone(self: Any, taken: Any, due: Any, until_us: int) -> Any:
        return polled(self, taken, Never(), until_us)  # type: ignore[arg-type]

    patch.setattr(Compiled, "_polled", alone)


def _what_on_timer_changes_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Compiled, "_put_back", lambda self: None)


def _rounded_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(arithmetic, "rounded_up", lambda us, every_us: us - us % every_us)


def _a_microsecond_late(patch: pytest.MonkeyPatch) -> None:
    store = dense.DenseState.store

    def late(self: dense.DenseState, handle: Any, keys: Any) -> None:
        if self.info.timer is not None:
            self._values[0] = self._values[0] + 1
        store(self, handle, keys)

    patch.setattr(dense.DenseState, "store", late)


DEFECTS: dict[str, Plant] = {
    "a timer is forgotten where a row traps": _forgotten_where_a_row_traps,
    "a timer is not put into the order of times": _not_in_the_order_of_times,
    "a timer that does not fire in its slice is lost": _what_does_not_fire_in_its_slice_is_lost,
    "an earlier timer of another key is not waited for": _what_is_not_lent_does_not_come_before,
    "what on_timer changes is lost": _what_on_timer_changes_is_lost,
    "times are rounded down": _rounded_down,
    "a time is a microsecond late": _a_microsecond_late,
}


@pytest.mark.mutation
@pytest.mark.parametrize("plant", DEFECTS.values(), ids=DEFECTS)
def test_a_defect_that_is_planted_in_timers_is_noticed(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            timed_trial(seed, tmp_path)
        except AssertionError:
            return
    raise AssertionError(f"{MOST_SEEDS} drawn functions are the same with it")
