"""Processors in simulated jobs with crashes, rescales and unaligned snapshots, against what a loop
over the rows gives; and bugs that are planted in the operator, which these runs notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms
from mainstay.runtime.operators.groups import KeyedGroups
from mainstay.runtime.operators.held_rows import HeldRows
from mainstay.state.timer_handles import TimersHandle
from mainstay.testing import run
from tests.processors.slices import START

ROWS = [(f"k{n % 6}", START + timedelta(seconds=n // 3), n) for n in range(120)]
SCHEMA = "key string, at timestamp, n long"


class Everything(StatefulProcessor):
    """A value, a list, a map and a timer for each row; what fires tells the state it finds."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.sum = handle.getValueState("sum", "n long")
        self.seen = handle.getListState("seen", "n long")
        self.by_time = handle.getMapState("by_time", "at long", "n long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.sum.update((initialState.n,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            self.sum.update(((self.sum.get() or (0,))[0] + row.n,))
            self.seen.appendValue((row.n,))
            at = int(row.at.timestamp() * 1000)
            self.by_time.updateValue((at,), ((self.by_time.getValue((at,)) or (0,))[0] + row.n,))
            self.handle.registerTimer(at + 5000)
        return iter([])

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        at = expiredTimerInfo.getExpiryTimeInMs()
        yield Row(key=key[0], at=at, n=self.by_time.getValue((at - 5000,))[0])


def everything(env: Any, **options: Any) -> None:
    watermark = ms.Watermark("at", delay="1 hour")
    source = env.source(ms.connectors.Rows(SCHEMA, ROWS, splits=2), uid="in", watermark=watermark)
    out = source.key_by("key").transform_with_state(
        Everything(), "key string, at long, n long", time_mode="EventTime", uid="f", **options
    )
    out.sink(ms.connectors.Memory(), uid="out")


def initialized(env: Any) -> None:
    everything(env, initial_state=ms.connectors.Rows("key string, n long", FIRST))


def held(env: Any) -> None:
    everything(env, group="epoch")


FIRST = [(f"k{n}", 1_000_000) for n in range(8)]


def check(build: Callable[[Any], None], seed: int) -> None:
    """One simulated run, and whether it has come to what a loop comes to."""
    mode = "unaligned" if seed % 3 == 2 else "exactly_once"
    result = run(build, seed=seed, crashes=1 + seed % 3, rescales=[3, 1][: seed % 3], mode=mode)
    by_time: Counter[tuple[str, int]] = Counter()
    sums: Counter[str] = Counter(dict(FIRST) if build is initialized else {})
    for key, at, n in ROWS:
        by_time[key, int(at.timestamp() * 1000)] += n
        sums[key] += n
    expected = sorted((key, at + 5000, n) for (key, at), n in by_time.items())
    assert sorted(result.output("out")) == expected, "each timer fires once, with its state"
    assert {key: row.n for key, row in result.state("f", "sum").items()} == dict(sums)
    seen = {key: Counter(row.n for row in rows) for key, rows in result.state("f", "seen").items()}
    assert seen == {key: Counter(n for k, _, n in ROWS if k == key) for key in seen}
    assert len(seen) == 6


BUILDS = (everything, initialized, held)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_job_comes_to_what_a_loop_comes_to(build: Any, seed: int) -> None:
    check(build, seed)


@pytest.mark.soak
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("seed", range(3, 120))
def test_more_seeds(build: Any, seed: int) -> None:
    check(build, seed)


# ------------------------------------------------------------ timeouts of the older functions


def counting(key: Any, frames: Any, state: Any) -> Any:
    if state.hasTimedOut:
        yield pd.DataFrame({"key": [key[0]], "n": [state.get[0]]})
        state.remove()
        return
    state.update(((state.getOption or (0,))[0] + sum(map(len, frames)),))
    state.setTimeoutTimestamp(int((START + timedelta(hours=2)).timestamp() * 1000))


@pytest.mark.parametrize("seed", range(2))
def test_each_key_times_out_once(seed: int) -> None:
    def build(env: Any) -> None:
        watermark = ms.Watermark("at", delay="1 hour")
        source = env.source(ms.connectors.Rows(SCHEMA, ROWS), uid="in", watermark=watermark)
        keyed = source.key_by("key")
        counted = keyed.apply_in_pandas_with_state(
            counting, "key string, n long", "n long", "Append", "EventTimeTimeout", uid="f"
        )
        counted.sink(ms.connectors.Memory(), uid="out")

    result = run(build, seed=seed, crashes=2, rescales=[3][: seed % 2])
    assert sorted(result.output("out")) == [(f"k{n}", 20) for n in range(6)]
    assert result.state("f", "state") == {}


# ------------------------------------------------------------ planted bugs


def _stays_in_state(self: Any) -> Any:
    """A timer that fires is not deleted."""
    return self.index.poll()


def _not_handed_over(self: Any, epoch: int) -> None:
    """Rows that are held are not in the snapshot."""
    if self._fired is not None:
        self._fired.store()


def _not_cleared(self: Any) -> None:
    """Rows that have waited for the initial state stay in the state."""


BUGS = [
    (TimersHandle, "take", _stays_in_state, everything),
    (KeyedGroups, "before_marker", _not_handed_over, held),
    (HeldRows, "clear", _not_cleared, initialized),
]


@pytest.mark.mutation
@pytest.mark.parametrize(("owner", "name", "bug", "build"), BUGS)
def test_a_planted_bug_is_noticed(
    owner: type, name: str, bug: Any, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(AssertionError):
        _all(build, range(12))


def _all(build: Any, seeds: range) -> None:
    for seed in seeds:
        check(build, seed)
