"""What patterns match, as tables: rows of a key, a pattern, and the matches.

A row is a letter with a number, such as ``b2``; one comes a second. The tables of contiguity, loops
and strategies are those of Flink's documentation of its CEP library.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory, Rows
from mainstay.errors import GraphError, RestoreError, UserFunctionError
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.own_states import MADE_FOR
from mainstay.runtime.patterns import PatternSpec
from mainstay.runtime.row_context import ProcessContext
from mainstay.schema import row_class, to_schema
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.operator import OperatorList
from mainstay.testing import LAST, Watermark, advance_clock, crash, run, snapshot
from tests.simulation.keeping_cases import kept_in
from tests.times import t, us

EVENT = "id string, at timestamp, name string"


def of(letters: str) -> Any:
    """Rows whose name begins with one of some letters."""
    return ms.col("name").rlike(f"^[{letters}]")


A, B, C, D = (of(letter) for letter in "abcd")
a = ms.pattern("a", A)
bs = ms.pattern("b", B)
d = ms.pattern("d", D)
a_or_not = a.optional()


def matches(rows: str, pattern: Any, backend: str = "heap", **named: Any) -> list[str]:
    """The names of the rows of each match, and behind a bar those of what has timed out."""
    given = [("k", t(second), name) for second, name in enumerate(rows.split(), start=1)]
    given = [row for row in given if row[2] != "_"]

    def build(env: ms.Environment) -> None:
        files = Files("./no-such-folder/events.csv", schema=EVENT)
        stream = env.source(files, uid="events", watermark=ms.Watermark("at"))
        found = stream.key_by("id").match(pattern, names, "names string", uid="match", **named)
        found.sink(Memory(), uid="out")

    with kept_in(backend, 1):
        result = run(build, {"events": [*given, Watermark(t(1000))]}, parallelism=1)
    assert result.state("match", "partial") == {}
    found = [each for (each,) in result.output("out")]
    if pattern.within_us is not None:
        partial = result.side("match", "timed_out")
        found += [f"| {names_of(row[3:])}" for row in partial]
    return found


def names(match: ms.Match) -> Any:
    return (" ".join(row.name for row in match.rows),)


def names_of(steps: Any) -> str:
    rows = [row for step in steps if step for row in (step if isinstance(step, list) else [step])]
    return " ".join(row.name for row in rows)


def rises(row: Any, match: ms.Match) -> bool:
    return row.name > match.rows[-1].name


def falls(row: Any, match: ms.Match) -> bool:
    return row.name < match.more[-1].name


LOOP = a.followed_by_any("b", B).one_or_more()
GREEDY = (
    ms.pattern("first", of("abc"))
    .then("second", of("bc"))
    .then("c", C)
    .one_or_more()
    .consecutive()
    .greedy()
    .then("d", D)
)
NO_B = a.not_followed_by("b", B)
NOT_NEXT = a.not_then("b", B).followed_by("c", C)

TABLE: list[tuple[str, Any, str, str, list[str]]] = [
    # contiguity
    ("strict", a.then("b", B), "none", "a c b1 b2", []),
    ("strict", a.then("b", B), "none", "a b1 b2", ["a b1"]),
    ("relaxed", a.followed_by("b", B), "none", "a c b1 b2", ["a b1"]),
    ("any", a.followed_by_any("b", B), "none", "a c b1 b2", ["a b1", "a b2"]),
    ("relaxed, twice", a.followed_by("b", B), "none", "a1 a2 b1", ["a1 b1", "a2 b1"]),
    # loops
    (
        "consecutive",
        LOOP.consecutive().followed_by("c", C),
        "none",
        "a b1 d1 b2 d2 b3 c",
        ["a b1 c", "a b2 c", "a b3 c"],
    ),
    (
        "a loop",
        LOOP.followed_by("c", C),
        "none",
        "a b1 d1 b2 d2 b3 c",
        ["a b1 b2 b3 c", "a b1 b2 c", "a b2 b3 c", "a b1 c", "a b2 c", "a b3 c"],
    ),
    (
        "combinations",
        LOOP.allow_combinations().followed_by("c", C),
        "none",
        "a b1 d1 b2 d2 b3 c",
        [
            "a b1 b2 b3 c",
            "a b1 b2 c",
            "a b1 b3 c",
            "a b2 b3 c",
            "a b1 c",
            "a b2 c",
            "a b3 c",
        ],
    ),
    ("times", bs.times(2), "none", "b1 d b2 b3", ["b1 b2", "b2 b3"]),
    ("times, directly", bs.times(2).consecutive(), "none", "b1 d b2 b3", ["b2 b3"]),
    (
        "times, combined",
        bs.times(2).allow_combinations(),
        "none",
        "b1 b2 b3",
        ["b1 b2", "b1 b3", "b2 b3"],
    ),
    ("from times to", a.then("b", B).times(1, 2), "none", "a b1 b2 b3", ["a b1", "a b1 b2"]),
    ("too few", a.then("b", B).times(2, 3), "none", "a b1 c", []),
    # optional
    ("optional", a.followed_by("b", B).optional().followed_by("c", C), "none", "a c", ["a c"]),
    (
        "optional, there",
        a.followed_by("b", B).optional().followed_by("c", C),
        "none",
        "a b c",
        ["a b c", "a c"],
    ),
    (
        "optional, directly",
        a.then("b", B).optional().then("c", C),
        "none",
        "a1 b c a2 c2",
        ["a1 b c", "a2 c2"],
    ),
    ("optional first", a.optional().then("b", B), "none", "a b", ["a b", "b"]),
    (
        "optional loop",
        a.then("b", B).times(2).optional().then("c", C),
        "none",
        "a1 b1 b2 c1 a2 c2 a3 b3 c3",
        ["a1 b1 b2 c1", "a2 c2"],
    ),
    # greedy
    (
        "greedy",
        GREEDY,
        "none",
        "a b c1 c2 c3 d",
        ["a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"],
    ),
    (
        "not greedy",
        a.followed_by("b", of("bc")).one_or_more().followed_by("c", C),
        "none",
        "a b1 c1 c2",
        ["a b1 c1", "a b1 c1 c2"],
    ),
    (
        "greedy takes what the next step would",
        a.followed_by("b", of("bc")).one_or_more().greedy().followed_by("d", of("cd")),
        "none",
        "a b1 c1 c2 d",
        ["a b1 c1 c2 d"],
    ),
    # which matches count
    ("all", a.then("b", B).one_or_more(), "none", "a b1 b2", ["a b1", "a b1 b2"]),
    ("to next", a.then("b", B).one_or_more(), "to_next", "a b1 b2 b3", ["a b1"]),
    ("past last", a.then("b", B).one_or_more(), "past_last", "a b1 b2 b3", ["a b1"]),
    ("all", bs.one_or_more().then("c", C), "none", "b1 b2 b3 c", ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
    (
        "to next",
        bs.one_or_more().then("c", C),
        "to_next",
        "b1 b2 b3 c",
        ["b1 b2 b3 c", "b2 b3 c", "b3 c"],
    ),
    ("past last", bs.one_or_more().then("c", C), "past_last", "b1 b2 b3 c", ["b1 b2 b3 c"]),
    ("the longest", bs.one_or_more().followed_by("c", C), "past_last", "b1 b2 c", ["b1 b2 c"]),
    ("past last", a.followed_by("b", B), "past_last", "a1 a2 b1 a3 b2", ["a1 b1", "a3 b2"]),
    (
        "what began first comes first",
        ms.pattern("a", of("ax")).followed_by(
            "b", lambda row, match: row.name == "b" + match.a.name
        ),
        "past_last",
        "a1 x1 bx1 ba1 a2 ba2",
        ["a1 ba1", "a2 ba2"],
    ),
    (
        "one that waits for another that comes to nothing",
        ms.pattern("a", of("ax")).followed_by(
            "b", lambda row, match: row.name == "b" + match.a.name
        ),
        "past_last",
        "a1 x1 bx1 a2 ba2",
        ["x1 bx1", "a2 ba2"],
    ),
    # time
    ("in time", a.followed_by("b", B).within("3s"), "none", "a c b", ["a b"]),
    ("over time", a.followed_by("b", B).within("2s"), "none", "a c b", ["| a"]),
    (
        "the first counts",
        bs.times(3).within("3s"),
        "none",
        "b1 b2 _ b3 b4",
        ["| b1 b2", "| b2 b3", "| b3 b4", "| b4"],
    ),
    ("what has ended does not time out", a.then("b", B).within("9s"), "none", "a c", []),
    # what must not come
    ("not next", NOT_NEXT, "none", "a b c", []),
    ("not next", NOT_NEXT, "none", "a d b c", ["a c"]),
    ("not next", NOT_NEXT, "none", "a c", ["a c"]),
    ("not between", NO_B.followed_by("c", C), "none", "a1 d c1 a2 b c2", ["a1 c1"]),
    ("not between any", NO_B.followed_by_any("c", C), "none", "a c1 c2 b c3", ["a c1", "a c2"]),
    ("not at the end", NO_B.within("3s"), "none", "a1 c c a2 c b", ["a1"]),
    ("not at the end", NO_B.within("3s"), "none", "a c c b", ["a"]),
    (
        "not behind what may be left out",
        a.followed_by("d", D).optional().not_followed_by("b", B).followed_by("c", C),
        "none",
        "a1 d1 b1 d2 c1",
        [],
    ),
    # what ends a loop
    ("until", a.one_or_more().until(B), "none", "a1 c a2 b a3", ["a1", "a1 a2", "a2", "a3"]),
    ("until the first row", a.one_or_more().until(A), "none", "a1 a2", ["a1", "a2"]),
    (
        "until what the next step takes",
        a.one_or_more().until(C).followed_by("c", C),
        "past_last",
        "a1 a2 d c1 a3 c2",
        ["a1 a2 c1", "a3 c2"],
    ),
    (
        "until, consecutive",
        LOOP.consecutive().until(of("d")).followed_by("c", C),
        "none",
        "a b1 b2 d b3 c",
        ["a b1 c", "a b1 b2 c", "a b2 c", "a b3 c"],
    ),
    (
        "until, combined",
        LOOP.allow_combinations().until(D).followed_by("c", C),
        "none",
        "a b1 b2 d b3 c",
        ["a b1 c", "a b1 b2 c", "a b2 c", "a b3 c"],
    ),
    (
        "until, greedy",
        a.followed_by("b", of("bd")).one_or_more().greedy().until(D).followed_by("d", D),
        "none",
        "a b1 b2 d1 b3 d2",
        ["a b1 b2 d1"],
    ),
    (
        "until a row of the match",
        a.followed_by("b", B).one_or_more().until(lambda row, m: len(m.rows) == 3).then("c", C),
        "past_last",
        "a b1 b2 c",
        ["a b1 b2 c"],
    ),
    # groups
    ("a group", a.then(bs.then("c", C)), "none", "a b c1 d b2 c2", ["a b c1"]),
    ("a group, relaxed", a.followed_by(bs.then("c", C)), "none", "a d b c1", ["a b c1"]),
    (
        "a group, any",
        a.followed_by_any(bs.then("c", C)),
        "none",
        "a b1 c1 b2 c2",
        ["a b1 c1", "a b2 c2"],
    ),
    (
        "a group, twice",
        a.followed_by(bs.then("c", C)).times(2),
        "none",
        "a b1 c1 d b2 c2",
        ["a b1 c1 b2 c2"],
    ),
    (
        "a group, consecutive",
        a.followed_by(bs.then("c", C)).times(2).consecutive(),
        "none",
        "a b1 c1 d b2 c2",
        [],
    ),
    (
        "a group at the beginning",
        ms.pattern(a.then("b", B)).one_or_more().then("c", C),
        "past_last",
        "a1 b1 a2 b2 c a3 c",
        ["a1 b1 a2 b2 c"],
    ),
    (
        "a group that may be left out",
        a.followed_by(bs.followed_by("c", C)).optional().followed_by("d", D),
        "none",
        "a b c d",
        ["a b c d", "a d"],
    ),
    (
        "a group in a group",
        a.then(ms.pattern(bs.then("c", C)).times(2).then("d", D)).one_or_more(),
        "none",
        "a b1 c1 b2 c2 d1",
        ["a b1 c1 b2 c2 d1"],
    ),
    (
        "a loop in a group that loops gives each match once",
        ms.pattern(a.one_or_more()).times(1, 2).then("b", B),
        "none",
        "a1 a2 b",
        ["a1 a2 b", "a2 b"],
    ),
    # groups whose first steps are left out: the first row that there is follows as the group does
    (
        "a group without its first step, consecutive",
        ms.pattern(a_or_not.followed_by("b", B)).times(2).consecutive(),
        "none",
        "b0 z b2",
        [],
    ),
    (
        "a group without its first step, twice",
        ms.pattern(a_or_not.then("b", B)).times(2),
        "none",
        "b0 z b2",
        ["b0 b2"],
    ),
    ("a group without its first step", d.then(a_or_not.followed_by("b", B)), "none", "d z b", []),
    (
        "a group without its first step, relaxed",
        d.followed_by(a_or_not.then("b", B)),
        "none",
        "d0 z b2 b3",
        ["d0 b2"],
    ),
    (
        "a group without its first step, any",
        d.followed_by_any(a_or_not.then("b", B)),
        "none",
        "d0 z b2 b3",
        ["d0 b2", "d0 b3"],
    ),
    (
        "a group without its first two steps",
        d.followed_by(a_or_not.then("b", B).optional().then("c", C)),
        "none",
        "d z c",
        ["d c"],
    ),
    (
        "a group with its first step, behind which the next ones follow as they say",
        d.followed_by(a_or_not.then("b", B).optional().then("c", C)),
        "none",
        "d a z c",
        ["d c"],
    ),
    (
        "a group without the group that it begins with",
        d.then(ms.pattern(a.then("b", B)).optional().followed_by("c", C)),
        "none",
        "d z c",
        [],
    ),
    (
        "a group that begins with one without its first step",
        d.then(ms.pattern(a_or_not.followed_by("b", B)).followed_by("c", C)),
        "none",
        "d z b c",
        [],
    ),
    (
        "a group without its first step, with what must not come before the next",
        d.followed_by(a_or_not.not_followed_by("c", C).then("b", B)),
        "none",
        "d1 z b1 d2 c b2",
        ["d1 b1"],
    ),
    # conditions
    ("any row", a.then("any").then("c", C), "none", "a x c", ["a x c"]),
    ("a function", a.then("b", lambda row: row.name == "b2"), "none", "a b1 a b2", ["a b2"]),
    (
        "rows before",
        ms.pattern("first").followed_by("more", rises).one_or_more().then("down", falls),
        "past_last",
        "b c d a",
        ["b c d a"],
    ),
]


@pytest.mark.filterwarnings("ignore:.*no within")
@pytest.mark.parametrize("backend", ["heap", "rocksdb", "external"])
def test_a_pattern_matches(backend: str) -> None:
    wrong = []
    for name, pattern, skip, rows, expected in TABLE:
        found = matches(rows, pattern, backend, skip=skip)
        if sorted(found) != sorted(expected):
            wrong.append(f"{name} ({skip}), {rows!r}: {found} and not {expected}")
    assert not wrong, "\n".join(wrong)


# ---------------------------------------------------------------- time and order

B_OF_A = a.followed_by("b", B).within("10s")


def result_of(given: list[Any], pattern: Any = B_OF_A, *arguments: Any, **named: Any) -> Any:
    """A run over a list of rows, watermarks and whatever else happens."""
    by = named.pop("by", ("id",))

    def build(env: ms.Environment) -> None:
        files = Files("./no-such-folder/events.csv", schema=EVENT)
        time = {} if named.get("order") == "arrival" else {"watermark": ms.Watermark("at")}
        stream = env.source(files, uid="events", **time)
        stream.key_by(*by).match(pattern, *arguments, uid="match", **named).sink(
            Memory(), uid="out"
        )

    return run(build, {"events": given}, parallelism=2)


def test_rows_are_matched_in_the_order_of_their_times() -> None:
    given = [("k", t(2), "b"), ("k", t(1), "a"), Watermark(t(9))]
    assert result_of(given, B_OF_A, names, "names string").output("out") == [("a b",)]


def test_rows_of_one_time_are_matched_in_the_order_in_which_they_came() -> None:
    given = [("k", t(1), "a"), ("k", t(1), "b"), ("l", t(1), "b"), ("l", t(1), "a")]
    assert result_of(given, B_OF_A, names, "names string").output("out") == [("a b",)]


def test_a_match_comes_out_before_the_watermark_that_it_waited_for() -> None:
    given = [("k", t(1), "a"), ("k", t(2), "b"), Watermark(t(2)), Watermark(t(3))]
    found = result_of(given, B_OF_A, names, "names string").elements("match")
    assert found == [Watermark(t(2)), ("a b",), Watermark(t(3)), LAST]


def test_a_row_behind_the_watermark_or_without_a_time_is_late() -> None:
    given = [
        ("k", t(1), "a"),
        Watermark(t(5)),
        ("k", t(4), "b"),
        ("k", None, "b"),
        ("k", t(5), "b"),
    ]
    result = result_of([*given, Watermark(t(9))], B_OF_A, names, "names string")
    assert sorted(row[1] is None for row in result.side("match", "late")) == [False, True]
    assert result.output("out") == [("a b",)]


def test_what_is_late_stays_late_after_a_crash() -> None:
    given = [("k", t(1), "a"), Watermark(t(5)), snapshot(), crash(), ("k", t(4), "b")]
    result = result_of(given)
    assert result.side("match", "late") == [("k", t(4), "b")]
    assert result.output("out") == []


def test_a_partial_match_survives_a_crash() -> None:
    given = [("k", t(1), "a"), Watermark(t(2)), snapshot(), crash(), ("k", t(3), "b")]
    assert result_of(given, B_OF_A, names, "names string").output("out") == [("a b",)]


def test_a_partial_match_times_out_with_the_watermark() -> None:
    given = [("k", t(1), "a"), Watermark(t(10)), Watermark(t(11)), ("k", t(11), "b")]
    result = result_of(given)
    row = ("k", t(1), "a")
    assert result.side("match", "timed_out") == [("k", t(1), t(11), row, None)]
    assert result.output("out") == []


def test_what_must_not_come_is_known_not_to_when_time_is_over() -> None:
    given = [("k", t(1), "a"), Watermark(t(3)), Watermark(t(4)), ("k", t(4), "b")]
    found = result_of(given, NO_B.within("3s")).elements("match")
    row = ("k", t(1), "a")
    assert found == [Watermark(t(3)), ("k", t(1), t(4), row), Watermark(t(4)), LAST]


def test_without_a_function_a_match_has_a_column_for_each_step() -> None:
    pattern = a.followed_by("b", B).times(2).followed_by("c", C).optional().within("9s")
    given = [("k", t(1), "a"), ("k", t(2), "b1"), ("k", t(3), "b2")]
    result = result_of(given, pattern)
    rows = [("k", t(2), "b1"), ("k", t(3), "b2")]
    assert result.output("out") == [("k", t(1), t(3), ("k", t(1), "a"), rows, None)]


def test_a_key_may_have_several_columns_or_be_made_by_a_function() -> None:
    given = [("k", t(1), "a"), ("k", t(2), "b"), ("l", t(2), "b")]
    pattern = ms.pattern("x").then("y").within("9s")
    assert result_of(given, pattern, by=("id", "name")).output("out") == []
    found = result_of(given, pattern, by=(lambda row: row.id.upper(), "string")).output("out")
    assert [row[:3] for row in found] == [("K", t(1), t(2))]


def test_null_is_a_key_like_others_and_a_condition_that_is_null_does_not_hold() -> None:
    given = [(None, t(1), "a"), (None, t(2), None), (None, t(3), "b")]
    assert len(result_of(given).output("out")) == 1
    assert result_of(given, a.then("b", B).within("9s")).output("out") == []


def test_rows_are_matched_as_they_come_where_that_is_asked_for() -> None:
    given = [("k", t(9), "a"), ("k", t(1), "b1"), ("k", None, "b2")]
    result = result_of(given, B_OF_A, names, "names string", order="arrival")
    assert result.output("out") == [("a b1",)]


def test_the_clock_says_when_time_is_over_where_rows_are_matched_as_they_come() -> None:
    given = [("k", None, "a1"), advance_clock("9s"), ("k", None, "a2"), advance_clock("2s")]
    given += [("k", None, "b")]
    result = result_of(given, B_OF_A, names, "names string", order="arrival", skip="none")
    assert result.output("out") == [("a2 b",)]
    assert [row[3].name for row in result.side("match", "timed_out")] == ["a1"]


def test_a_match_says_what_it_is() -> None:
    row = row_class(to_schema(EVENT))
    rows = [row(("k", t(1), "a")), row(("k", t(2), "b"))]
    taken = PatternSpec(B_OF_A.members, None, "none").taken
    match = ms.Match(taken, "k", rows, [0, 1], us(1), us(2))
    assert (match.key, match.start, match.time, match.steps) == ("k", t(1), t(2), ("a", "b"))
    assert match.a == match["a"] == match.rows[0]
    assert repr(match).startswith("Match(a=Row(id='k'")
    with pytest.raises(AttributeError, match=r"has no step 'aa'.*Did you mean 'a'"):
        match.aa  # noqa: B018
    with pytest.raises(KeyError, match="has no step 'c'"):
        match["c"]


def test_a_condition_that_fails_is_an_error_of_the_author() -> None:
    pattern = a.then("b", lambda row, match: row.name + 1 > match.a.name).within("9s")
    with pytest.raises(UserFunctionError, match=r"operator 'match'.*can only concatenate str"):
        result_of([("k", t(1), "a"), ("k", t(2), "b")], pattern)


# ---------------------------------------------------------------- another program


def test_what_partial_matches_depend_on_is_the_shape_of_a_pattern() -> None:
    shapes = [
        PatternSpec(each.members, each.within_us, "none").shape()
        for each in (B_OF_A, B_OF_A.within("1s"), a.then("b", C), a.followed_by("b", B).optional())
    ]
    assert shapes[0] == shapes[1]
    assert len(set(shapes)) == 3


def opened(pattern: Any, backend: Any = None, lists: Any = None) -> tuple[Any, Any, Any]:
    """The operator of a pattern, over new state or over that of another one."""
    env = ms.Environment(parallelism=1)
    source = env.source(Rows(EVENT, []), uid="in")
    keyed = source.key_by("id")
    keyed.match(pattern, order="arrival", uid="match").sink(Memory(), uid="out")
    spec = next(spec for _, spec in env.plan().operators() if spec.uid == "match")
    ctx = ProcessContext("match", 0, 1)
    ctx.now_us = lambda: us(1)
    assert spec.key is not None
    if backend is None:
        kept = [info for info in spec.states if info.kind.shape != "units"]
        backend = HeapBackend(kept, spec.key.type, 128, ctx)
        lists = {MADE_FOR.name: OperatorList(MADE_FOR)}
    operator: Any = spec.factory.build()
    operator.out, unused = (lambda batch: None), cast(Any, None)
    place = OperatorContext("match", 0, 1, 1, "job", unused, unused, unused, ctx, backend, lists)
    operator.open(place)
    return operator, backend, lists


def test_a_pattern_with_other_steps_does_not_go_on_from_what_is_kept() -> None:
    operator, *kept = opened(B_OF_A)
    opened(a.then("b", B).within("1s"), *kept)  # nothing is kept that could be of another
    operator, *kept = opened(B_OF_A)
    row = pa.RecordBatch.from_pylist([{"id": "k", "name": "a"}], schema=to_schema(EVENT))
    operator.process(row, 0)
    opened(a.followed_by("b", C).within("1s"), *kept)
    with pytest.raises(RestoreError, match=r"keeps rows for the pattern .*relaxed b.*another uid"):
        opened(a.then("b", B).within("10s"), *kept)


# ---------------------------------------------------------------- mistakes


@pytest.mark.filterwarnings("ignore:.*no within")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ms.pattern("a b"), "called by a name such as"),
        (lambda: ms.pattern("rows"), "cannot be called 'rows'"),
        (lambda: ms.pattern("a", 5), "the condition of the step 'a' is 5"),
        (lambda: ms.pattern("a", lambda: True), "cannot be called with a row"),
        (lambda: a.then("a", B), "two steps 'a'"),
        (lambda: a.not_then("b", None), "Give it a condition"),
        (lambda: a.times(0), "least"),
        (lambda: a.times(3, 2), "most=2 is less"),
        (lambda: a.times(2000), "more than 1000 rows"),
        (lambda: a.greedy(), "'a' comes once"),
        (lambda: a.until(B), "'a' comes once"),
        (lambda: a.one_or_more().until(None), "Give a condition"),
        (lambda: a.one_or_more().until(5), "the condition of the step 'a' is 5"),
        (lambda: ms.pattern(a).one_or_more().until(B), "follows the group of 'a'"),
        (lambda: ms.pattern(a.then("b", B)).times(2).greedy(), "follows the group of 'a', 'b'"),
        (lambda: ms.pattern(a).consecutive(), "the group of 'a' comes once"),
        (lambda: a.then(a), "two steps 'a'"),
        (lambda: a.then(bs.within("1s")), "the group of 'b' has a within"),
        (lambda: a.then(bs, C), "has conditions of its own"),
        (lambda: a.then(bs.not_then("c", C)), "ends with 'c', which must not come"),
        (lambda: a.then(bs.optional()), "consists of is optional"),
        (lambda: ms.pattern(a.times(40)).times(30), "more than 1000 rows"),
        (lambda: a.not_then("b", B).optional(), "which must not be there"),
        (lambda: a.one_or_more().greedy().allow_combinations(), "Leave one of them out"),
        (lambda: a.within("0s"), "within"),
        (lambda: result_of([], "a b"), "needs a pattern"),
        (lambda: result_of([], a.optional()), "all steps of the pattern are optional"),
        (lambda: result_of([], a.not_then("b", B)), "ends with not_then"),
        (lambda: result_of([], a.not_followed_by("b", B)), "nothing says until when"),
        (lambda: result_of([], a.one_or_more().greedy()), "is greedy, and nothing must come"),
        (lambda: result_of([], a, skip="past"), "skip='past' is unknown"),
        (lambda: result_of([], a, order="time"), "order='time' is unknown"),
        (lambda: result_of([], a, order="arrival", on="at"), "Leave one of them out"),
        (lambda: result_of([], a, schema="n long"), "no function that makes rows"),
        (lambda: result_of([], a, names), "needs the schema"),
        (lambda: result_of([], a, lambda: 1, "n long"), "cannot be called with 1 argument"),
        (lambda: result_of([], ms.pattern("id")), "a match has a column 'id' already"),
        (lambda: result_of([], ms.pattern("a", ms.col("nme") == "a")), "no column 'nme'"),
        (lambda: result_of([], ms.pattern("a", ms.col("name"))), "cannot filter rows"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        make()


def test_a_pattern_without_an_end_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="has no within"):
        result_of([], a.then("b", B))


def test_event_time_that_no_source_tells_is_refused() -> None:
    def build(env: ms.Environment) -> None:
        stream = env.source(Files("./no/x.csv", schema=EVENT), uid="events")
        stream.key_by("id").match(B_OF_A, on="at", uid="match").sink(Memory(), uid="out")

    with pytest.raises(GraphError, match="waits for event time"):
        run(build, {"events": []})
