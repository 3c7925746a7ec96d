"""Rows so near the year 10000 that ``within`` ends after it: a date that stands for "never"."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import rows, run

LAST_HOUR = datetime(9999, 12, 31, 23, tzinfo=timezone.utc)
LAST_MOMENT = datetime.max.replace(tzinfo=timezone.utc)


def matched(pattern: ms.Pattern, values: list[Any]) -> tuple[list[Any], list[Any]]:
    """The matches and what has timed out, as when each is over."""

    def build(env: ms.Environment) -> None:
        source = rows("k string, at timestamp, n long", values)
        stream = env.source(source, uid="rows", watermark=ms.Watermark("at"))
        stream.key_by("k").match(pattern.within("2h"), uid="found").sink(
            ms.connectors.Memory(), uid="out"
        )

    result = run(build, crashes=1)
    assert not result.state("found", "waiting")
    return [row[2] for row in result.output("out")], [
        row[2] for row in result.side("found", "timed_out")
    ]


@pytest.mark.parametrize("at", [LAST_HOUR, LAST_MOMENT])
def test_a_partial_match_is_over_at_the_end_of_time(at: datetime) -> None:
    pattern = ms.pattern("a").followed_by("b", ms.col("n") > 1)
    assert matched(pattern, [("x", at, 1)]) == ([], [LAST_MOMENT])


@pytest.mark.parametrize("at", [LAST_HOUR, LAST_MOMENT])
def test_what_must_not_come_did_not_come_by_then(at: datetime) -> None:
    pattern = ms.pattern("a").not_followed_by("b", ms.col("n") > 1)
    assert matched(pattern, [("x", at, 1)]) == ([LAST_MOMENT], [])


def test_rows_of_the_very_last_moment_are_matched() -> None:
    pattern = ms.pattern("a").then("b", ms.col("n") > 1)
    assert matched(pattern, [("x", LAST_HOUR, 1), ("x", LAST_MOMENT, 2)])[0] == [LAST_MOMENT]
