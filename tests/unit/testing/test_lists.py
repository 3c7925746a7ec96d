"""Lists as the input of a run: what takes effect when, and what a test can ask about it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory
from mainstay.errors import GraphError, SchemaError, UserFunctionError
from mainstay.testing import (
    LAST,
    Result,
    SimulatedClock,
    Watermark,
    advance_clock,
    crash,
    idle,
    rows,
    run,
    snapshot,
)
from tests.times import t, us

CLICKS = "user string, at timestamp"
SEEN = "user string, n long, watermark timestamp"


class Seen(ms.KeyedProcess):
    """Counts the rows of a key, and says how far event time has come."""

    n = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.add(1)
        yield ctx.key, self.n.get(), ctx.watermark


def clicks_of(env: ms.Environment, uid: str = "clicks", **watermark: Any) -> ms.Stream:
    # The files do not exist: only a list is read here.
    files = Files(f"./no-such-folder/{uid}.csv", schema=CLICKS)
    return env.source(files, uid=uid, watermark=ms.Watermark("at", **watermark))


def seen(env: ms.Environment) -> None:
    keyed = clicks_of(env, delay="10s").key_by("user")
    keyed.process(Seen(), SEEN, uid="seen").sink(Memory(), uid="out")


def union(env: ms.Environment) -> None:
    both = clicks_of(env, "left").union(clicks_of(env, "right"))
    both.key_by("user").process(Seen(), SEEN, uid="seen").sink(Memory(), uid="out")


def counts(result: Result) -> list[Any]:
    """What was emitted, without the time of each row."""
    return [e if isinstance(e, Watermark) else e[:2] for e in result.elements("seen")]


# ---------------------------------------------------------------- the order of effects

ORDERED = [
    ("a", t(1)),
    Watermark(t(5)),
    ("b", t(2)),
    ("a", t(6)),
    Watermark(t(7)),
    Watermark(t(9)),
    ("b", t(8)),
]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_elements_take_effect_in_the_order_of_the_list(parallelism: int, seed: int) -> None:
    result = run(seen, {"clicks": ORDERED}, parallelism=parallelism, seed=seed)
    assert result.elements("seen") == [
        ("a", 1, None),
        Watermark(t(5)),
        ("b", 1, t(5)),
        ("a", 2, t(5)),
        Watermark(t(7)),
        Watermark(t(9)),
        ("b", 2, t(9)),
        LAST,
    ]
    assert result.elements("clicks") == [*ORDERED, LAST]
    assert result.watermarks("seen") == [Watermark(t(each)) for each in (5, 7, 9)] + [LAST]
    assert sorted(result.output("out")) == sorted(
        row for row in result.elements("seen") if isinstance(row, tuple)
    )


def test_at_parallelism_one_the_output_is_in_the_order_of_the_list() -> None:
    result = run(seen, {"clicks": ORDERED}, parallelism=1)
    assert [row[0] for row in result.output("out")] == ["a", "b", "a", "b"]


def test_rows_make_no_watermarks_unless_every_row_is_to() -> None:
    given = [("a", t(20)), ("b", t(15)), ("a", t(30))]
    assert run(seen, {"clicks": given}).watermarks("seen") == [LAST]
    result = run(seen, {"clicks": given}, watermark_every_row=True)
    assert result.elements("seen") == [
        ("a", 1, None),
        Watermark(t(10)),
        ("b", 1, t(10)),
        ("a", 2, t(10)),
        Watermark(t(20)),
        LAST,
    ]


def test_every_row_of_given_rows_can_have_its_watermark_too() -> None:
    given = rows(CLICKS, [("a", t(20)), ("a", t(30))], splits=2)
    result = run(seen, {"clicks": given}, parallelism=1, watermark_every_row=True)
    assert result.elements("clicks") == [
        ("a", t(20)),
        Watermark(t(10)),
        ("a", t(30)),
        Watermark(t(20)),
        LAST,
    ]


def test_rows_of_a_schema_may_have_elements_between_them() -> None:
    given = rows(CLICKS, [("a", t(1)), Watermark(t(5)), ("b", t(6))])
    assert run(seen, {"clicks": given}).elements("clicks") == [
        ("a", t(1)),
        Watermark(t(5)),
        ("b", t(6)),
        LAST,
    ]


def test_a_list_may_be_empty() -> None:
    assert run(seen, {"clicks": []}).elements("seen") == [LAST]


def test_a_function_that_fails_fails_the_run() -> None:
    def build(env: ms.Environment) -> None:
        halves = clicks_of(env).map(lambda row: (1 // 0,), "n long", uid="halves")
        halves.sink(Memory(), uid="out")

    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        run(build, {"clicks": [("a", t(1))]})


# ---------------------------------------------------------------- the end


def test_without_an_end_there_is_no_last_watermark_and_output_is_committed() -> None:
    result = run(seen, {"clicks": ORDERED}, ends=False)
    assert result.watermarks("seen")[-1] == Watermark(t(9))
    assert len(result.output("out")) == 4
    assert result.state("seen", "n") == {"a": 2, "b": 2}
    assert result.simulation.coordinator.status.value == "stopped"


def test_only_lists_can_be_without_an_end() -> None:
    with pytest.raises(GraphError, match="ends=False is for inputs that are lists"):
        run(seen, {"clicks": rows(CLICKS, [("a", t(1))])}, ends=False)


# ---------------------------------------------------------------- processing time


class Remembered(ms.KeyedProcess):
    n = ms.ReducingState("long", lambda a, b: a + b, ttl=ms.Ttl("10s"))

    def process(self, row: Any, ctx: Any) -> Any:
        self.n.add(1)
        yield ctx.key, self.n.get()


def remembered(env: ms.Environment) -> None:
    keyed = clicks_of(env).key_by("user")
    keyed.process(Remembered(), "user string, n long", uid="seen").sink(Memory(), uid="out")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_processing_time_moves_where_the_list_says_and_nowhere_else(parallelism: int) -> None:
    a = ("a", t(1))
    given = [a, a, advance_clock("9s"), a, advance_clock("10s"), a, *[a] * 50, advance_clock(3)]
    result = run(remembered, {"clicks": given}, parallelism=parallelism)
    found = [row[1] for row in counts(result)[:-1]]
    assert found == [1, 2, 3, 1, *range(2, 52)]
    clock = result.simulation.clock
    assert clock.wall() == clock.start + 22.0


def test_the_clock_of_a_test_says_when_its_list_begins() -> None:
    result = run(seen, {"clicks": ORDERED}, clock=SimulatedClock(5e8))
    assert {record.triggered_at for record in result.snapshots} == {5e8}


# ---------------------------------------------------------------- several inputs


def test_lists_of_several_inputs_are_taken_in_turns() -> None:
    left = [("l1", t(1)), ("l2", t(1)), ("l3", t(1))]
    right = [("r1", t(1)), ("r2", t(1))]
    result = run(union, {"left": left, "right": right})
    assert [row[0] for row in counts(result)[:-1]] == ["l1", "r1", "l2", "r2", "l3"]
    result = run(union, {"right": right, "left": left})
    assert [row[0] for row in counts(result)[:-1]] == ["r1", "l1", "r2", "l2", "l3"]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_one_list_for_all_inputs_says_the_order_between_them(parallelism: int) -> None:
    result = run(
        union,
        [
            ("right", ("r", t(1))),
            ("right", Watermark(t(20))),
            advance_clock("1s"),
            ("left", ("l", t(2))),
            ("left", Watermark(t(5))),
            ("left", ("l", t(6))),
            ("left", Watermark(t(30))),
            ("right", ("r", t(25))),
        ],
        parallelism=parallelism,
    )
    assert result.elements("seen") == [
        ("r", 1, None),
        ("l", 1, None),
        Watermark(t(5)),
        ("l", 2, t(5)),
        Watermark(t(20)),
        ("r", 2, t(20)),
        Watermark(t(30)),  # the first input has ended
        LAST,
    ]


def test_event_time_does_not_wait_for_an_input_that_is_idle() -> None:
    left = [
        ("l", t(1)),
        Watermark(t(5)),
        ("l", t(6)),
        Watermark(t(7)),
        Watermark(t(9)),
        ("l", t(10)),
    ]
    right: list[Any] = [("r", t(1)), ("r", t(2))]
    assert run(union, {"left": left, "right": right}).watermarks("seen") == [LAST]
    right = [("r", t(1)), idle(), ("r", t(2)), Watermark(t(8))]
    result = run(union, {"left": left, "right": right})
    # It holds event time back from its next row on.
    expected = [("l", 1), ("r", 1), Watermark(t(5)), ("l", 2), ("r", 2), Watermark(t(7))]
    assert counts(result) == [*expected, Watermark(t(8)), ("l", 3), LAST]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_input_is_idle_after_a_while_by_the_clock_of_the_list(parallelism: int) -> None:
    def build(env: ms.Environment) -> None:
        both = clicks_of(env, "left").union(clicks_of(env, "right", idle="1min"))
        both.key_by("user").process(Seen(), SEEN, uid="seen").sink(Memory(), uid="out")

    def watermarks(*waits: str) -> list[Watermark]:
        waited = [advance_clock(wait) for wait in waits]
        script = [("right", ("r", t(1))), ("left", Watermark(t(5))), *waited]
        return run(build, script, ends=False, parallelism=parallelism).watermarks("seen")

    assert watermarks("59s") == []
    assert watermarks("59s", "1s") == [Watermark(t(5))]


def test_given_rows_are_read_before_the_first_element_of_a_list() -> None:
    given = {"left": [("l", t(1))], "right": rows(CLICKS, [("r", t(1))] * 3)}
    for seed in range(3):
        assert [row[0] for row in counts(run(union, given, seed=seed))[:-1]] == [*"rrrl"]


# ---------------------------------------------------------------- epochs and crashes


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_crash_goes_back_to_the_last_snapshot(parallelism: int) -> None:
    a = ("a", t(1))
    given = [a, snapshot(), a, Watermark(t(2)), a, crash(), a, crash(), a, snapshot(), a]
    result = run(seen, {"clicks": given}, parallelism=parallelism)
    assert [each.restored_from for each in result.attempts] == [None, 1, 1]
    assert len(result.snapshots) == 3
    assert counts(result) == [
        *[("a", 1), ("a", 2), Watermark(t(2)), *[("a", n) for n in (3, 4, 5, 6)], LAST]
    ]
    assert [row[1] for row in result.output("out")] == [1, 2, 3, 4, 5, 6]


class Forgetful(ms.KeyedProcess):
    def __init__(self) -> None:
        self.n = 0

    def process(self, row: Any, ctx: Any) -> Any:
        self.n += 1
        yield ctx.key, self.n


def forgetful(env: ms.Environment) -> None:
    keyed = clicks_of(env).key_by("user")
    keyed.process(Forgetful(), "user string, n long", uid="seen").sink(Memory(), uid="out")


def test_a_crash_finds_what_no_snapshot_holds() -> None:
    a = ("a", t(1))
    result = run(forgetful, {"clicks": [a, a, snapshot(), a, crash(), a]})
    assert [row[1] for row in result.output("out")] == [1, 2, 1, 2]


def test_without_a_snapshot_a_crash_goes_back_to_the_beginning() -> None:
    a = ("a", t(1))
    result = run(seen, {"clicks": [a, a, advance_clock("1s"), crash(), a]})
    assert [each.restored_from for each in result.attempts] == [None, None]
    assert counts(result) == [("a", 1), ("a", 2), ("a", 3), LAST]
    # The clock does not go back.
    assert result.simulation.clock.wall() == result.simulation.clock.start + 1.0


def test_two_inputs_go_back_together() -> None:
    script = [
        ("left", ("l", t(1))),
        snapshot(),
        ("right", ("r", t(1))),
        ("left", ("l", t(2))),
        crash(),
        ("right", ("r", t(2))),
    ]
    result = run(union, script)
    assert counts(result) == [("l", 1), ("r", 1), ("l", 2), ("r", 2), LAST]


MANY: list[Any] = [
    each
    for n in range(12)
    for each in (("abc"[n % 3], t(n)), ("d", t(n)), Watermark(t(n)), advance_clock("1s"))
]


@pytest.mark.parametrize("mode", ["exactly_once", "unaligned"])
@pytest.mark.parametrize("seed", range(3))
def test_crashes_faults_and_a_rescale_change_nothing_about_a_list(seed: int, mode: str) -> None:
    def once() -> Result:
        return run(
            seen,
            {"clicks": MANY},
            seed=seed,
            mode=mode,
            crashes=2,
            rescales=[3],
            storage_faults=2,
        )

    result = once()
    assert result.state("seen", "n") == {"a": 4, "b": 4, "c": 4, "d": 12}
    for key, n in (("a", 4), ("d", 12)):
        assert [row[1] for row in result.output("out") if row[0] == key] == [*range(1, n + 1)]
    assert len(result.attempts) > 1
    again = once()
    assert again.elements("seen") == result.elements("seen")
    assert again.output("out") == result.output("out")


def test_crashes_come_after_epochs_at_some_seed() -> None:
    results = [run(seen, {"clicks": MANY}, seed=seed, crashes=2) for seed in range(4)]
    assert any(each.restored_from for result in results for each in result.attempts)


# ---------------------------------------------------------------- mistakes


def no_time(env: ms.Environment) -> None:
    env.source(Files("./no.csv", schema=CLICKS), uid="clicks").sink(Memory(), uid="out")


@pytest.mark.parametrize(
    ("build", "inputs", "options", "message"),
    [
        (seen, {"clikcs": [("a", t(1))]}, {}, r"\['clikcs'\].*\['clicks'\].*Did you mean 'clicks'"),
        (seen, [("clikcs", ("a", t(1)))], {}, r"\['clikcs'\].*\['clicks'\].*Did you mean 'clicks'"),
        (seen, [("a", t(1), 3)], {}, r"element 0 of inputs is .*pairs of a uid and a row"),
        (seen, [Watermark(t(1))], {}, r"element 0 of inputs is Watermark\('2026-01-01 00:00:01'\)"),
        (
            seen,
            {"clicks": [Watermark(t(2)), Watermark(t(1))]},
            {},
            r"'clicks' has .* never goes back",
        ),
        (seen, {"clicks": (("a", t(1)),)}, {}, r"'clicks' is a tuple; give it as a list"),
        (no_time, {"clicks": [Watermark(t(2))]}, {}, r"'clicks'.*makes no watermarks.*watermark="),
        (no_time, {"clicks": [idle()]}, {}, r"'clicks'.*makes no watermarks.*watermark="),
        (no_time, {"clicks": []}, {"watermark_every_row": True}, r"makes no watermarks"),
    ],
)
def test_a_list_that_says_nothing_sensible_is_refused(
    build: Any, inputs: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        run(build, inputs, **options)


def test_a_list_needs_a_schema() -> None:
    def build(env: ms.Environment) -> None:
        env.from_dataframe("a DataFrame", uid="clicks").sink(Memory(), uid="out")

    with pytest.raises(GraphError, match=r"'clicks' of the job does not say its schema.*rows\("):
        run(build, {"clicks": [("a", t(1))]})
    given = rows(CLICKS, [("a", t(1)), snapshot()])
    assert run(build, {"clicks": given}).output("out") == [("a", t(1))]


def test_a_row_that_does_not_fit_is_refused_with_the_name_of_its_list() -> None:
    with pytest.raises(SchemaError, match=r"the rows of the list for 'clicks'"):
        run(seen, {"clicks": [("a", t(1), 5)]})


def test_splits_are_for_rows_alone() -> None:
    with pytest.raises(GraphError, match=r"splits= is for rows alone"):
        rows(CLICKS, [("a", t(1)), snapshot()], splits=2)


def test_what_has_no_elements_is_refused_with_what_has_some() -> None:
    result = run(seen, {"clicks": []})
    with pytest.raises(KeyError, match=r"no operator 'sen'; the job has \['clicks', 'seen'\]"):
        result.elements("sen")
    with pytest.raises(KeyError, match=r"'out' is a sink"):
        result.elements("out")


# ---------------------------------------------------------------- elements


def test_the_time_of_a_watermark_is_a_datetime_a_text_or_microseconds() -> None:
    vienna = timezone(timedelta(hours=1))
    same = [
        Watermark(t("10:00:05")),
        Watermark("2026-01-01T10:00:05Z"),
        Watermark("2026-01-01 11:00:05+01:00"),
        Watermark("2026-01-01 10:00:05"),
        Watermark(us("10:00:05")),
        Watermark(datetime(2026, 1, 1, 10, 0, 5)),
        Watermark(datetime(2026, 1, 1, 11, 0, 5, tzinfo=vienna)),
    ]
    assert set(same) == {same[0]}
    assert repr(same[0]) == "Watermark('2026-01-01 10:00:05')"
    assert (same[0].at, same[0].time_us) == (t("10:00:05"), us("10:00:05"))
    assert Watermark(datetime.max) == LAST
    assert repr(LAST) == "LAST"


@pytest.mark.parametrize("time", ["noon", 1.5, None, True])
def test_what_is_no_time_is_no_watermark(time: Any) -> None:
    with pytest.raises(GraphError, match=r"Watermark\("):
        Watermark(time)


def test_the_clock_goes_forward_only() -> None:
    with pytest.raises(GraphError, match=r"by='0s' must be a duration of more than zero"):
        advance_clock("0s")


def test_elements_are_shown_as_they_are_written() -> None:
    shown = [repr(each) for each in (advance_clock("10s"), idle(), snapshot(), crash())]
    assert shown == ["advance_clock(10)", "idle()", "snapshot()", "crash()"]
