"""Deduplication as tables of what happens: rows, watermarks and the clock, and what is emitted."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory
from mainstay.errors import GraphError
from mainstay.testing import LAST, Watermark, advance_clock, crash, run, snapshot
from tests.times import t

EVENT = "id string, at timestamp, n long"
PLAIN = "id string, n long"


def emitted(given: list[Any], schema: str = EVENT, **named: Any) -> list[Any]:
    """What ``deduplicate`` emits for a list, without the watermarks."""
    return [each for each in result_of(given, schema, **named).elements("once") if row(each)]


def result_of(given: list[Any], schema: str = EVENT, **named: Any) -> Any:
    def build(env: ms.Environment) -> None:
        files = Files("./no-such-folder/events.csv", schema=schema)
        time = {"watermark": ms.Watermark("at")} if "at timestamp" in schema else {}
        keyed = env.source(files, uid="events", **time).key_by("id")
        keyed.deduplicate(uid="once", **named).sink(Memory(), uid="out")

    return run(build, {"events": given}, parallelism=2)


def row(element: Any) -> bool:
    return not isinstance(element, Watermark)


# ---------------------------------------------------------------- the first row


def test_a_row_is_emitted_at_once_when_its_key_is_new() -> None:
    result = result_of([("a", t(1), 1), ("a", t(2), 2), ("b", t(3), 3), Watermark(t(9))])
    assert result.elements("once") == [("a", t(1), 1), ("b", t(3), 3), Watermark(t(9)), LAST]


def test_a_key_is_remembered_across_a_crash() -> None:
    given = [("a", 1), ("b", 2), snapshot(), ("c", 3), crash(), ("a", 4), ("c", 5)]
    assert result_of(given, PLAIN).output("out") == [("a", 1), ("b", 2), ("c", 3)]


def test_null_is_a_key_like_others() -> None:
    assert emitted([(None, 1), ("a", 2), (None, 3)], PLAIN) == [(None, 1), ("a", 2)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", t(0), 1), ("a", t(59), 2)], [1]),
        ([("a", t(0), 1), ("a", t(60), 2)], [1, 2]),  # the bound is no part of it
        ([("a", t(0), 1), ("a", t(60), 2), ("a", t(119), 3), ("a", t(120), 4)], [1, 2, 4]),
        ([("a", t(50), 1), ("a", t(0), 2)], [1]),  # an older one is no news either
        ([("a", t(0), 1), ("b", t(0), 2), ("a", t(70), 3), ("b", t(30), 4)], [1, 2, 3]),
    ],
)
def test_a_row_counts_again_when_it_is_as_much_newer(given: list[Any], expected: list[int]) -> None:
    assert [n for _, _, n in emitted(given, within="1min")] == expected


def test_watermarks_change_nothing_for_rows_that_are_on_time() -> None:
    given = [
        ("a", t(0), 1),
        Watermark(t(20)),
        Watermark(t(40)),
        ("a", t(59), 2),
        Watermark(t(60)),  # "a" may be forgotten from here on
        ("a", t(60), 3),
        Watermark(t(110)),
        ("a", t(119), 4),
        Watermark(t(900)),
        ("a", t(901), 5),
    ]
    assert [n for _, _, n in emitted(given, within="1min")] == [1, 3, 5]


def test_rows_behind_the_watermark_and_without_a_time_are_late() -> None:
    given = [("a", t(0), 1), Watermark(t(30)), ("b", t(29), 2), ("b", t(30), 3), ("c", None, 4)]
    result = result_of(given, within="1min")
    assert result.output("out") == [("a", t(0), 1), ("b", t(30), 3)]
    assert sorted(n for *_, n in result.side("once", "late")) == [2, 4]


def test_what_is_late_stays_late_after_a_crash() -> None:
    given = [("a", t(0), 1), Watermark(t(60)), snapshot(), crash(), ("a", t(59), 2)]
    result = result_of(given, within="1min")
    assert result.output("out") == [("a", t(0), 1)]
    assert result.side("once", "late") == [("a", t(59), 2)]


def test_keys_are_forgotten_when_event_time_is_past_them() -> None:
    given = [("a", t(0), 1), Watermark(t(10)), ("b", t(50), 2), Watermark(t(100))]
    result = result_of(given, within="1min")
    assert list(result.state("once", "seen_us")) == ["b"]


def test_without_event_time_the_clock_says_when_a_key_is_forgotten() -> None:
    given = [("a", 1), advance_clock("59s"), ("a", 2), advance_clock("2s"), ("a", 3)]
    assert emitted(given, PLAIN, within="1min") == [("a", 1), ("a", 3)]


# ---------------------------------------------------------------- the last row


def test_every_row_that_is_as_new_as_the_newest_is_an_update() -> None:
    given = [("a", t(0), 5), ("a", t(1), 4), ("a", t(2), 5), ("a", t(3), 9), ("b", t(4), 1)]
    assert [n for *_, n in emitted(given, keep="last", by="n")] == [5, 5, 9, 1]


def test_without_an_order_the_last_row_that_comes_is_the_newest() -> None:
    given = [("a", 5), ("a", 4), ("b", 1)]
    assert emitted(given, PLAIN, keep="last") == given


def test_a_row_without_an_order_is_older_than_any_other() -> None:
    given = [("a", None), ("a", None), ("a", 3), ("a", None), ("a", 3)]
    expected = [("a", None), ("a", None), ("a", 3), ("a", 3)]
    assert emitted(given, PLAIN, keep="last", by="n") == expected


@pytest.mark.parametrize("by", ["double", "string", "decimal(9, 2)", "date", "boolean"])
def test_columns_of_all_types_that_have_an_order_say_what_is_newest(by: str) -> None:
    low, high = values(by)
    given = [("a", low), ("a", high), ("a", low), ("a", high)]
    schema = f"id string, n {by}"
    assert emitted(given, schema, keep="last", by="n") == [("a", low), ("a", high), ("a", high)]


def values(by: str) -> tuple[Any, Any]:
    from datetime import date
    from decimal import Decimal

    return {
        "double": (1.5, float("inf")),
        "string": ("a", "b"),
        "decimal(9, 2)": (Decimal("-1.25"), Decimal("3.50")),
        "date": (date(2026, 1, 1), date(2026, 1, 2)),
        "boolean": (False, True),
    }[by]


def test_the_newest_is_forgotten_when_event_time_is_past_it() -> None:
    given = [
        ("a", t(0), 5),
        Watermark(t(1)),
        ("a", t(10), 7),
        ("a", t(50), 6),  # an older version that comes later prolongs nothing
        Watermark(t(69)),
        ("a", t(70), 6),
        Watermark(t(70)),
        ("a", t(71), 6),
        ("a", t(70), 9),
    ]
    found = emitted(given, keep="last", by="n", within="1min")
    assert [n for *_, n in found] == [5, 7, 6, 9]


def test_the_newest_is_forgotten_by_the_clock_without_event_time() -> None:
    given = [("a", 5), advance_clock("50s"), ("a", 4), advance_clock("11s"), ("a", 3)]
    assert emitted(given, PLAIN, keep="last", by="n", within="1min") == [("a", 5), ("a", 3)]


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"keep": "frist"}, 'must be "first" or "last"'),
        ({"by": "n"}, 'keep="first" keeps the one that came first'),
        ({"keep": "last", "within": "1h"}, "nothing is remembered"),
        ({"keep": "last", "by": "m"}, "there is no column 'm'"),
        ({"within": "0s"}, "within"),
        ({"on": "at"}, "Say with within="),
        ({"within": "1h", "on": "n"}, "the time of an event is a timestamp"),
    ],
)
def test_what_makes_no_sense_is_refused(named: dict[str, Any], why: str) -> None:
    with pytest.raises(GraphError, match=why) as raised:
        result_of([], **named)
    assert "operator 'once' (deduplicate)" in str(raised.value)


def test_event_time_that_no_source_tells_is_refused() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(Files("./no/x.csv", schema=EVENT), uid="events")
        stream.key_by("id").deduplicate(within="1h", on="at", uid="once").sink(Memory(), uid="out")

    with pytest.raises(GraphError, match="waits for event time"):
        run(build, {"events": []})
