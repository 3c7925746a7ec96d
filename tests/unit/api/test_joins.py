"""Joins as a program asks for them: the columns they give, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.runtime.joins import Interval
from mainstay.schema import format_schema
from mainstay.testing import rows

BIDS = "auction long, price long, at timestamp"
AUCTIONS = "id long, item string, opened timestamp"


def streams(
    left: str = BIDS,
    right: str = AUCTIONS,
    *,
    times: tuple[str | None, str | None] = ("at", "opened"),
) -> tuple[ms.Environment, Any, Any]:
    env = ms.Environment()
    found = [
        env.source(
            rows(schema, []), uid=uid, watermark=None if time is None else ms.Watermark(time)
        )
        for schema, uid, time in zip((left, right), ("bids", "auctions"), times, strict=True)
    ]
    return env, *found


WITHIN = {"within": ms.interval("-10s", "0s")}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (WITHIN, f"{BIDS}, item string, opened timestamp"),
        ({**WITHIN, "how": "full"}, f"{BIDS}, item string, opened timestamp"),
        ({**WITHIN, "how": "semi"}, BIDS),
        ({"as_of": "left"}, f"{BIDS}, item string, opened timestamp"),
        ({"keep": "forever"}, f"{BIDS}, item string, opened timestamp"),
        (
            {"window": ms.tumbling("1s"), "how": "anti"},
            f"{BIDS}, window_start timestamp, window_end timestamp",
        ),
    ],
)
def test_the_columns_of_a_join(options: dict[str, Any], expected: str) -> None:
    _, bids, auctions = streams()
    joined = bids.key_by("auction").join(auctions.key_by("id"), **options)
    assert format_schema(joined.schema).replace("`", "") == expected


def test_a_key_that_a_function_made_is_in_no_column() -> None:
    _, bids, auctions = streams()
    left = bids.key_by(lambda row: row.auction % 2, "long")
    joined = left.join(auctions.key_by("id"), **WITHIN)
    assert joined.schema.names == ["auction", "price", "at", "id", "item", "opened"]
    other = bids.key_by("auction").join(auctions.key_by(lambda row: row.id, "long"), **WITHIN)
    assert other.schema.names == ["auction", "price", "at", "id", "item", "opened"]


def test_a_name_of_both_sides_needs_a_suffix() -> None:
    _, bids, auctions = streams(right="id long, price long, opened timestamp")
    left, right = bids.key_by("auction"), auctions.key_by("id")
    with pytest.raises(GraphError, match=r"both sides have a column 'price'.*suffix"):
        left.join(right, **WITHIN)
    assert left.join(right, **WITHIN, suffix="_2").schema.names[3:] == ["price_2", "opened"]


def test_late_rows_have_the_columns_of_their_side() -> None:
    _, bids, auctions = streams()
    joined = bids.key_by("auction").join(auctions.key_by("id"), **WITHIN)
    assert joined.late_left.schema == bids.schema
    assert joined.late_right.schema == auctions.schema


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "two kinds": ({**WITHIN, "as_of": "left"}, "within and as_of are different joins"),
    "no word on how long": ({}, "keeps all rows of both sides"),
    "both words on how long": ({"keep": "forever", "ttl": "1h"}, "Leave one out"),
    "another keep": ({"keep": "long"}, "keep='long' is unknown; it is \"forever\""),
    "outer without a bound": ({"how": "left", "keep": "forever"}, "which nobody knows"),
    "an unknown way": ({"how": "iner", **WITHIN}, "how='iner' is unknown.*[Dd]id you mean"),
    "as of and full": ({"how": "full", "as_of": "left"}, "is not for as_of"),
    "as of right": ({"as_of": "right"}, "Swap the streams"),
    "an age without as of": ({**WITHIN, "max_age": "1h"}, "max_age= belongs to as_of"),
    "ttl in event time": ({**WITHIN, "ttl": "1h"}, "event time says how long rows are kept"),
    "a time by key alone": ({"keep": "forever", "on": "at"}, "goes by none"),
    "no interval": ({"within": "10s"}, "must be an interval"),
    "sessions": ({"window": ms.session("1s")}, "must be one with fixed bounds"),
    "processing time": ({"window": ms.tumbling("1s", time="processing")}, "in event time"),
    "three times": ({**WITHIN, "on": ("a", "b", "c")}, "or one for each side"),
    "a suffix that is none": ({**WITHIN, "suffix": 5}, "suffix=5 must be a text"),
    "a negative age": ({"as_of": "left", "max_age": "-1s"}, r"operator 'joined' .*max_age='-1s'"),
    "a negative ttl": ({"ttl": -5}, r"operator 'joined' .*ttl=-5"),
    "no such time": ({**WITHIN, "on": ("at", "when")}, "there is no column 'when'"),
    "no timestamp": ({**WITHIN, "on": ("price", "opened")}, "is a timestamp"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_with_the_remedy(name: str) -> None:
    options, message = MISTAKES[name]
    _, bids, auctions = streams()
    with pytest.raises(GraphError, match=message):
        bids.key_by("auction").join(auctions.key_by("id"), uid="joined", **options)


def test_the_right_side_must_be_keyed_alike() -> None:
    _, bids, auctions = streams()
    left = bids.key_by("auction")
    with pytest.raises(GraphError, match="has no key"):
        left.join(auctions, **WITHIN)
    with pytest.raises(GraphError, match="different key types"):
        left.join(auctions.key_by("item"), **WITHIN)
    with pytest.raises(GraphError, match="needs a keyed stream"):
        left.join([1], **WITHIN)


@pytest.mark.parametrize("options", [WITHIN, {"as_of": "left"}, {"window": ms.tumbling("1s")}])
def test_a_join_in_time_without_watermarks_is_refused(options: dict[str, Any]) -> None:
    env, bids, auctions = streams(times=(None, None))
    joined = bids.key_by("auction").join(
        auctions.key_by("id"), on=("at", "opened"), uid="joined", **options
    )
    joined.sink(ms.connectors.Memory(), uid="out")
    with pytest.raises(GraphError, match=r"'joined' \(join\) waits for event time"):
        env.plan()


def test_an_interval_is_signed_and_not_turned_round() -> None:
    assert ms.interval("-10s", "500ms").fixed() == Interval(-10_000_000, 500_000)
    assert ms.interval(-1, 0).fixed() == Interval(-1_000_000, 0)
    with pytest.raises(GraphError, match="ends before it begins"):
        ms.interval("0s", "-1s")
    with pytest.raises(GraphError, match="is no duration"):
        ms.interval("-soon", "0s")


def test_a_join_is_explained_with_its_states() -> None:
    env, bids, auctions = streams()
    joined = bids.key_by("auction").join(auctions.key_by("id"), **WITHIN, how="full", uid="joined")
    joined.sink(ms.connectors.Memory(), uid="out")
    text = env.explain()
    for state in ("left", "right", "left_matched", "right_matched"):
        assert state in text


class Timed(ms.CoKeyedProcess):
    close = ms.Timer("processing_time")

    def process_left(self, row: Any, ctx: Any) -> Any:
        return None

    def process_right(self, row: Any, ctx: Any) -> Any:
        return None

    def on_timer(self, at: Any, ctx: Any) -> Any:
        return None


def test_a_function_with_timers_does_not_wait_for_the_right_input() -> None:
    env = ms.Environment(spark="embedded")
    left = env.source(ms.connectors.Rows("k long", []), uid="left").key_by("k")
    right = env.source(ms.connectors.Rows("k long", []), uid="right").key_by("k")
    with pytest.raises(GraphError, match="timers cannot wait for the right input"):
        left.connect(right, wait_for_right=True).process(Timed(), "k long", uid="f")


UNTIL = {"within": ms.interval("0s", ms.col("until"))}
ENDING = f"{BIDS}, until timestamp"


def test_the_end_that_rows_say_is_the_time_of_the_results() -> None:
    env, bids, auctions = streams(ENDING)
    joined = bids.key_by("auction").join(auctions.key_by("id"), **UNTIL, uid="join")
    counts = joined.window(ms.tumbling("1s")).aggregate(n=ms.count(), uid="n")
    counts.sink(ms.connectors.Memory(), uid="out")
    assert "join: join" in str(env.explain())


def test_an_end_that_is_part_of_the_key_is_kept_with_the_rows() -> None:
    _, bids, auctions = streams(ENDING, f"{AUCTIONS}, until timestamp")
    joined = bids.key_by("auction", "until").join(auctions.key_by("id", "until"), **UNTIL)
    assert joined.schema.names == ["auction", "price", "at", "until", "item", "opened"]


@pytest.mark.parametrize(
    ("end", "how", "said"),
    [
        ("untill", "inner", r"left side: there is no column 'untill'.*Did you mean 'until'"),
        ("price", "inner", "'price', which is of type long; it must be a timestamp"),
        ("until", "right", "gives right rows alone"),
        ("until", "full", "gives right rows alone"),
    ],
)
def test_an_end_that_cannot_be_one_is_refused(end: str, how: Any, said: str) -> None:
    _, bids, auctions = streams(ENDING)
    with pytest.raises(GraphError, match=said):
        bids.key_by("auction").join(
            auctions.key_by("id"), within=ms.interval("0s", ms.col(end)), how=how
        )


def test_bounds_that_are_no_columns_of_the_left_rows_are_refused() -> None:
    with pytest.raises(GraphError, match="only the upper bound may be a column"):
        ms.interval(ms.col("at"), "0s")  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"Make it one with with_columns"):
        ms.interval("0s", ms.col("at") + ms.col("at"))
    with pytest.raises(GraphError, match="interval\\(\\): lower"):
        ms.interval("-soon", ms.col("at"))
