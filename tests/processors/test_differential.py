"""Random processors on Mainstay and in Spark's own ``TwsTester``, over the same rows: what they
emit and what they keep is the same. ``tests/spark/test_differential.py`` has Spark itself."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from mainstay.spark.processors.states import BoundList, BoundMap, BoundValue
from mainstay.state.timer_handles import TimersHandle
from tests.processors import random_programs as programs
from tests.processors.slices import START_MS, VARIANTS, Slices, variant

TwsTester = pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="PySpark has TwsTester since 4.2"
).TwsTester
LEFT_OUT = frozenset({(programs.LIST, "during"), (programs.MAP, "exists")})
"""Where the tester is not as Spark's engine is: an open iterator of a list sees what is added, and
a map whose last entry was removed exists."""


class Beside:
    """A program on Mainstay and in the tester."""

    def __init__(self, program: programs.Program, how: type) -> None:
        made = variant(programs.Programs, how)
        arguments = (program,), "ProcessingTime"
        self.in_pandas = how.in_pandas
        self.tester = TwsTester(made(*arguments), timeMode="ProcessingTime")
        self.tester.setProcessingTime(START_MS)

        def build(keyed: Any) -> Any:
            return keyed.transform_with_state(
                made(*arguments),
                programs.OUTPUT,
                in_pandas=self.in_pandas,
                time_mode="ProcessingTime",
                uid="f",
            )

        self.run = Slices("k string, n long", "k", build)

    def take(self, rows: list[tuple[str, int]]) -> None:
        expected: list[Any] = []
        for key in dict.fromkeys(key for key, _ in rows):
            numbers = [n for each, n in rows if each == key]
            if self.in_pandas:
                expected += _tuples(self.tester.testInPandas(key, pd.DataFrame({"n": numbers})))
            else:
                expected += _tuples(self.tester.test(key, [Row(n=n) for n in numbers]))
        assert self.run.take(*rows) == expected

    def wait_until(self, at_ms: int) -> None:
        found = self.run.wait(at_ms / 1000 - self.run.clock.wall())
        assert sorted(found) == sorted(_tuples(self.tester.setProcessingTime(at_ms)))


def _tuples(found: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(found, pd.DataFrame):
        return found.itertuples(index=False, name=None)
    return map(tuple, found)


def compare(chance: Random) -> None:
    """A program that is drawn, some slices of rows that are drawn, and all that is kept at last."""
    both = Beside(programs.drawn(chance, left_out=LEFT_OUT), chance.choice(VARIANTS))
    now_ms, n = START_MS, 0
    for _ in range(chance.randint(1, 5)):
        rows = []
        for _ in range(chance.randint(1, 8)):
            n += 1
            rows.append((f"k{chance.randint(0, 2)}", n))
        both.take(rows)
        now_ms += chance.choice((1, 5, 20, 50))
        both.wait_until(now_ms)
    both.wait_until(programs.LAST_MS)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_a_random_processor_does_what_it_does_in_the_tester(chance: Random) -> None:
    compare(chance)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5_000))
def test_more_processors(seed: int) -> None:
    compare(Random(seed))


# ------------------------------------------------------------ planted differences


def _lingers(self: Any, key: Any) -> None:
    """An entry of a map is not removed."""


def _reversed(self: Any, values: Any) -> None:
    """What is added to a list is added in another order."""
    self._write(self._handle.extend, list(values)[::-1])


def _never(self: Any) -> bool:
    """A value is not there."""
    return False


def _not_deleted(self: Any, at: Any) -> None:
    """A timer stays."""


PLANTED = [
    (BoundMap, "removeKey", _lingers),
    (BoundList, "appendList", _reversed),
    (BoundValue, "exists", _never),
    (TimersHandle, "delete", _not_deleted),
]


@pytest.mark.mutation
@pytest.mark.parametrize(("owner", "name", "bug"), PLANTED)
def test_a_planted_difference_is_noticed(
    owner: type, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(AssertionError):
        _all(range(60))


def _all(seeds: range) -> None:
    for seed in seeds:
        compare(Random(seed))
