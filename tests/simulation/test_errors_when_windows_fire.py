"""What goes wrong only when a window is put together names operator, aggregate and key, too."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import JobFailedError, UserFunctionError
from mainstay.testing import rows, run

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MOST = (1 << 63) - 1
SLIDING = ms.sliding("10s", every="1s")
WINDOWS = {
    "sliding": SLIDING,
    "cumulating": ms.cumulating("10s", every="1s"),
    "session": ms.session("10s"),
    "rows": ms.rows(2),
}


class Failing(ms.AggregateFunction):
    """Fails when somebody wants to see what it has."""

    def __init__(self, given: Any = None) -> None:
        self.given = given

    def create(self) -> int:
        return 0

    def add(self, accumulator: int, value: int) -> int:
        return accumulator + value

    def merge(self, accumulator: int, other: int) -> int:
        return accumulator + other

    def result(self, accumulator: int) -> Any:
        if self.given is None:
            raise ValueError("no result")
        return self.given


def results(window: Any, values: list[int], **aggregates: Any) -> list[Any]:
    """Rows of a key a few seconds apart, beside one of another key, in windows."""
    given = [("other", START, 1)]
    given += [("mine", START + timedelta(seconds=2 * n), v) for n, v in enumerate(values)]

    def build(env: ms.Environment) -> None:
        source = rows("k string, at timestamp, v long", given)
        stream = env.source(source, uid="rows", watermark=ms.Watermark("at"))
        windows = stream.key_by("k").window(window).aggregate(uid="totals", **aggregates)
        windows.sink(ms.connectors.Memory(), uid="out")

    return run(build, parallelism=1).output("out")


OVERFLOWS = "operator 'totals': the sum 'total' of key 'mine' does not fit the type long"


@pytest.mark.parametrize("name", WINDOWS)
def test_a_sum_that_overflows_names_operator_aggregate_and_key(name: str) -> None:
    with pytest.raises(JobFailedError, match=OVERFLOWS):
        results(WINDOWS[name], [MOST, MOST], total=ms.sum("v"))


def test_so_it_does_where_panes_are_merged_in_stacks() -> None:
    # The maximum cannot be subtracted, so that two stacks merge the panes.
    with pytest.raises(JobFailedError, match=OVERFLOWS):
        results(SLIDING, [1, 1, MOST - 1, 1, 1, 1, 1], total=ms.sum("v"), best=ms.max("v"))


@pytest.mark.parametrize("name", WINDOWS)
def test_a_result_that_raises_is_an_error_of_its_author(name: str) -> None:
    failing = ms.udaf(Failing(), "v", accumulator="long", returns="long")
    with pytest.raises(UserFunctionError, match=r"operator 'totals'.*result\(\): ValueError"):
        results(WINDOWS[name], [1, 2], seen=failing)


@pytest.mark.parametrize("name", WINDOWS)
def test_a_result_of_another_type_names_the_operator(name: str) -> None:
    failing = ms.udaf(Failing("text"), "v", accumulator="long", returns="long")
    with pytest.raises(JobFailedError, match=r"operator 'totals': the aggregate 'seen'"):
        results(WINDOWS[name], [1, 2], seen=failing)


@pytest.mark.parametrize("gap", [ms.col("v"), lambda row: row.v, lambda row: "soon"])
def test_a_gap_that_is_no_duration_names_the_operator(gap: Any) -> None:
    with pytest.raises(JobFailedError, match="operator 'totals': the gap of a session is"):
        results(ms.session(gap), [0], n=ms.count())
