"""A wall clock that jumps: hours back and forward, in the middle of a job.

Epochs, leases, restarts and back-off go by a clock that only goes forward. What goes by the time of
day, a time to live and timers, may come sooner or later, but nothing is lost and nothing hangs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.testing import rows, run
from mainstay.testing.processes import SimulatedClock

HOUR_S = 3600.0
SEEDS = range(1, 20)
JUMPS_S = (0.0, 5 * HOUR_S, -30 * HOUR_S, 0.5, -0.5, 24 * 365 * HOUR_S, -24 * 365 * 40 * HOUR_S)


class JumpingClock(SimulatedClock):
    """Its wall clock is set anew a thousand times in a simulated second."""

    def wall(self) -> float:
        return super().wall() + JUMPS_S[int(self.now * 1000) % len(JUMPS_S)]


class BackwardClock(SimulatedClock):
    """Its wall clock runs backwards."""

    def wall(self) -> float:
        return self.start - 100 * self.now


class Count(ms.KeyedProcess):
    """Counts rows in a state that stays, notes them in one that expires, and sets timers."""

    n = ms.ValueState("long")
    lasting = ms.ValueState("long", ttl="1h")
    ring = ms.Timer("processing_time")

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.update((self.n.get() or 0) + 1)
        self.lasting.update(row.id)
        assert self.lasting.get() in (None, row.id)
        self.ring.set(ctx.now() + timedelta(milliseconds=1))
        return ctx.key, self.n.get()

    def on_timer(self, at: Any, ctx: Any) -> Any:
        """Whenever it fires, nothing comes of it."""


def build(env: Any) -> None:
    source = rows("id long, k string", [(n, f"k{n % 7}") for n in range(210)])
    counted = env.source(source, uid="rows").key_by("k")
    counted.process(Count(), "k string, n long", uid="count").sink(Memory(), uid="out")


@pytest.mark.parametrize("clock", [JumpingClock, BackwardClock])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in SEEDS)])
def test_a_wall_clock_that_jumps_changes_no_result(clock: Any, seed: int) -> None:
    result = run(build, seed=seed, crashes=2, storage_faults=2, clock=clock())
    assert result.state("count", "n") == {f"k{n}": 30 for n in range(7)}


class Expiring(Count):
    """Its count expires by mistake, as everything would if all of state went by the wall clock."""

    n = ms.ValueState("long", ttl="1h")


@pytest.mark.mutation
def test_a_state_that_goes_by_the_wall_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Count", Expiring)
    with pytest.raises(AssertionError):
        test_a_wall_clock_that_jumps_changes_no_result(JumpingClock, 0)
