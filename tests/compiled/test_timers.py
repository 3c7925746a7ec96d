"""Compiled functions with timers give what they give without ``compiled``, on every backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from textwrap import dedent, indent
from typing import Any
from unittest.mock import patch

import pytest

from mainstay.runtime.compiled.kernels import Kernels
from mainstay.runtime.operators import timed as slices
from mainstay.schema import rows_to_batch, to_schema
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.testing.memory_disk import MemoryRocksSettings
from mainstay.testing.memory_store import MemoryStoreSettings
from tests.compiled.driving import plain
from tests.compiled.modules import class_of, module_of
from tests.compiled.timed_driving import TimedDriven, TimedOutcome, by_key
from tests.compiled.timed_written import START, TAKEN, Event, timed
from tests.simulation.shares import soaked

BACKENDS: tuple[BackendSettings, ...] = (
    HeapSettings(),
    MemoryRocksSettings(1 << 16),
    MemoryStoreSettings("compiled-timers", 1 << 16),
)
AT_A_TIME = 40
IN_THE_SUITE = 120
WITH_NUMBA = (5, 6)


def backend_of(seed: int) -> BackendSettings:
    settings = BACKENDS[seed % len(BACKENDS)]
    if isinstance(settings, MemoryStoreSettings):
        settings.fresh()
    return settings


def timed_trial(seed: int, folder: Path, kernels: Kernels | None = None) -> Counter[str]:
    """What happened in the trial of a seed."""
    given = timed(seed)
    function = module_of(given.source, folder).F
    with patch.object(slices, "SLICE_TIMERS", (1, 3, 1024)[seed % 7 % 3]):
        own = TimedDriven(plain(function)()).after(given.events)
        compiled = TimedDriven(function(), backend_of(seed), kernels).after(given.events)
    if not given.is_strict:
        own, compiled = by_key(own), by_key(compiled)
    assert compiled == own, f"seed {seed}\n{given.source}\n{given.events}"
    whats = Counter(row[1].split("'")[1][:1] if "'" in row[1] else "none" for row in own.rows)
    return whats + Counter(failed=own.error is not None, ignored=own.ignored)


@pytest.mark.parametrize("first", range(0, IN_THE_SUITE, AT_A_TIME))
def test_a_drawn_function_with_timers_is_the_same_when_compiled(first: int, tmp_path: Path) -> None:
    happened: Counter[str] = Counter()
    for seed in range(first, first + AT_A_TIME):
        happened += timed_trial(seed, tmp_path)
    # Or it would not say much: timers fire, in process() too, and are ignored at the end of time.
    assert happened["t"] > 200, happened
    assert happened["none"] > 10, happened
    assert happened["ignored"] > 0, happened
    assert happened["failed"] > 0, happened


@pytest.mark.parametrize("seeds", soaked("compiled timers", 1000))
def test_many_drawn_functions_with_timers_are_the_same_when_compiled(
    seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        timed_trial(seed, tmp_path)


@pytest.mark.parametrize("seed", WITH_NUMBA)
def test_a_drawn_function_with_timers_is_the_same_as_machine_code(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from mainstay.native.cache import FOLDER
    from mainstay.native.kernels import NumbaKernels

    monkeypatch.setenv(FOLDER, str(tmp_path / "kernels"))
    assert timed_trial(seed, tmp_path, NumbaKernels())["t"]


# ---------------------------------------------------------------- what is not drawn


def outcomes_of(
    process: str, on_timer: str, events: Sequence[Event], folder: Path, members: str = ""
) -> tuple[TimedOutcome, TimedOutcome]:
    """What a function gives compiled, and itself."""
    hook = f"\ndef on_timer(self, at, ctx):\n{indent(dedent(on_timer), '    ')}\n"
    given = f"close = ms.Timer('event_time')\nring = ms.Timer('processing_time')\n{members}{hook}"
    function = module_of(class_of(process, members=given), folder).F
    compiled, own = TimedDriven(function()), TimedDriven(plain(function)())
    return compiled.after(events), own.after(events)


def row(key: int, second: float, d: int = 0) -> tuple[Any, ...]:
    at = START + timedelta(seconds=second)
    return key, 1, d, at, at, "a"


ROWS = ("rows", [row(1, 1), row(2, 2), row(1, 3), row(3, 2, 5)])
FIRED = "yield (ctx.key, ctx.timer, at, None, ctx.time_domain, ctx.watermark)"
SET = "self.close.set(row.at)"
ERRORS = {
    "on_timer raises": (SET, "raise ValueError(ctx.key)"),
    "on_timer divides by zero": (SET, "yield (1 // (ctx.key - ctx.key),)"),
    "on_timer gives a row of too few values": (SET, "yield (ctx.key,)"),
    "on_timer gives a text for a number": (SET, "return ('a', None, at, None, None, None)"),
    "on_timer assigns the key": (SET, "ctx.key = 5"),
    "on_timer sets no time": (SET, "self.close.set(None)"),
    "process sets no time": ("self.close.set(None)", "pass"),
    "a row has no time": ("self.close.set(row.at if row.d == 0 else None)", "pass"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_an_error_is_the_same(case: tuple[str, str], tmp_path: Path) -> None:
    compiled, own = outcomes_of(*case, [ROWS, ("watermark", None)], tmp_path)
    assert own.error is not None
    assert compiled == own


def test_timers_that_on_timer_sets_without_declaring_them_are_the_same(tmp_path: Path) -> None:
    on_timer = f"""
    {FIRED}
    if ctx.timer == "close":
        for n in (4, 2, 1):
            ctx.timers.event_time(at + timedelta(seconds=n))
        ctx.timers.processing_time(at)
    elif ctx.time_domain == "event_time":
        ctx.timers.delete_event_time(at + timedelta(seconds=2))
        if self.close.get() is None and at.second < 9:
            self.close.set(at)
    """
    watermarks = [("watermark", START + timedelta(seconds=n)) for n in (2, 3, 9)]
    events = [ROWS, *watermarks, ("clock", 9.0), ROWS, ("watermark", None)]
    compiled, own = outcomes_of(SET, on_timer, events, tmp_path)
    assert by_key(compiled) == by_key(own)
    assert len(own.rows) > 20


def test_timers_for_the_past_and_for_the_end_of_time_are_the_same(tmp_path: Path) -> None:
    process = """
    if row.d:
        self.close.set(row.at - timedelta(days=400))
    else:
        self.far.set(self.last)
    """
    members = (
        "far = ms.Timer('event_time', every='1h')\n"
        "last = datetime(9999, 12, 31, 23, 59, 59, 999998, timezone.utc)\n"
    )
    events = [ROWS, ("watermark", START), ("watermark", START), ("watermark", None)]
    compiled, own = outcomes_of(process, FIRED, events, tmp_path, members)
    assert by_key(compiled) == by_key(own)
    assert any("9999" in value for each in own.rows for value in each)


def test_rows_that_came_before_the_clock_are_processed_before_it_rings(tmp_path: Path) -> None:
    driven = ringing("if row.d:\n    self.ring.clear()\nelse:\n    self.ring.set(row.at)", tmp_path)
    driven.after([("rows", [row(1, 5), row(2, 5)])])
    driven.clock.now = 6.0
    # It is gathered, and not processed yet.
    driven.operator.process(rows_to_batch([row(1, 5, 1)], to_schema(TAKEN), "a test"), 0)
    assert driven.operator.is_due()
    fired = driven.after([("clock", 0.0)]).rows
    assert [each[0] for each in fired] == ["int 2"]


def test_a_kernel_and_the_rows_it_traps_for_see_one_time(tmp_path: Path) -> None:
    large = "n = row.x * 4611686018427387904 * row.d\n"
    driven = ringing(f"{large}yield (row.k, None, ctx.now(), 0, '', None)", tmp_path)
    driven.clock.wall = _Ticking().wall  # type: ignore[method-assign]
    rows = driven.after([("rows", [row(n, n, d=n % 3) for n in range(9)])]).rows
    assert len(rows) == 9
    assert len({each[2] for each in rows}) == 1


def ringing(process: str, folder: Path) -> TimedDriven:
    """A function with a timer of the wall clock."""
    hook = f"def on_timer(self, at, ctx):\n    {FIRED}"
    members = f"ring = ms.Timer('processing_time')\n\n{hook}"
    return TimedDriven(module_of(class_of(process, members=members), folder).F())


class _Ticking:
    """A clock that moves whenever it is asked."""

    now = 0.0

    def wall(self) -> float:
        self.now += 1.0
        return self.now
