"""Windows with fixed bounds: which rows are in which, when they are emitted, and what is late."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import GraphError
from mainstay.runtime.windows import FixedWindows
from mainstay.testing import LAST, advance_clock, crash, idle, run, snapshot
from tests.windows.kit import CLICKS, click, clicks, emitted, output, s, shown, until, windowed

SECOND = 1_000_000


# ---------------------------------------------------------------- which windows


@pytest.mark.parametrize(
    ("at", "offset", "start"),
    [(0, 0, 0), (4.999999, 0, 0), (5, 0, 5), (-0.000001, 0, -5), (-5, 0, -5), (-5.1, 0, -10),
     (0, 1, -4), (1, 1, 1), (0, -1, -1), (3.9, -1, -1), (4, -1, 4), (-1.1, -1, -6)],
)  # fmt: skip
def test_a_row_is_in_the_tumbling_window_that_contains_its_time(
    at: float, offset: int, start: float
) -> None:
    window = ms.tumbling("5s", offset=offset)
    assert output(windowed(window), [click("a", at)]) == [("a", start, start + 5, 1, 1)]


@pytest.mark.parametrize(
    ("at", "offset", "starts"),
    [(0, 0, [-4, -2, 0]), (1.9, 0, [-4, -2, 0]), (2, 0, [-2, 0, 2]), (-0.1, 0, [-6, -4, -2]),
     (0, 1, [-5, -3, -1]), (1, 1, [-3, -1, 1]), (0, -1, [-5, -3, -1]), (-7, 0, [-12, -10, -8])],
)  # fmt: skip
def test_a_row_is_in_every_sliding_window_that_contains_its_time(
    at: float, offset: int, starts: list[float]
) -> None:
    window = ms.sliding("6s", every="2s", offset=offset)
    expected = [("a", start, start + 6, 1, 1) for start in starts]
    assert output(windowed(window), [click("a", at)]) == sorted(expected, key=repr)


def test_sizes_that_are_no_multiples_of_each_other_slide_by_their_common_part() -> None:
    elements = [click("a", at) for at in (0, 2, 3, 4, 5)]
    found = output(windowed(ms.sliding("5s", every="3s")), elements)
    assert found == sorted([("a", -3, 2, 1, 1), ("a", 0, 5, 4, 4), ("a", 3, 8, 3, 3)], key=repr)


def test_rows_between_windows_are_in_none_and_not_late() -> None:
    elements = [click("a", at) for at in (0, 1.9, 2, 4, 5, 6.5, 8)]
    build = windowed(ms.sliding("2s", every="5s"))
    assert output(build, elements) == [("a", 0, 2, 2, 2), ("a", 5, 7, 2, 2)]
    assert output(build, elements, "late") == []


def test_windows_that_cumulate_begin_together_and_grow() -> None:
    elements = [click("a", 1, 1), click("a", 5, 10), click("b", 7, 100), click("a", 14, 1000)]
    found = output(windowed(ms.cumulating("12s", every="4s")), elements)
    assert found == [
        ("a", 0, 12, 2, 11),
        ("a", 0, 4, 1, 1),
        ("a", 0, 8, 2, 11),
        ("a", 12, 16, 1, 1000),
        ("a", 12, 20, 1, 1000),
        ("a", 12, 24, 1, 1000),
        ("b", 0, 12, 1, 100),
        ("b", 0, 8, 1, 100),
    ]


def test_windows_far_apart_are_not_looked_for_in_between() -> None:
    elements = [click("a", -3e9), click("a", 3e9), click("a", 3e9 + 1)]
    found = output(windowed(ms.sliding("2s", every="1s")), elements)
    assert [row[1] for row in found if row[3] == 2] == [3e9]
    assert len(found) == 5


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: ms.tumbling("0s"), "size='0s' must be a duration of more than zero"),
        (lambda: ms.tumbling(-1), "size=-1 must be a duration of more than zero"),
        (lambda: ms.tumbling(1e-9), "less than a microsecond"),
        (lambda: ms.tumbling("5s", offset="5s"), "offset='5s' must be less than the size"),
        (lambda: ms.tumbling("5s", offset=-5), "offset=-5 must be less than the size"),
        (lambda: ms.sliding("5s", every="0s"), "every='0s' must be a duration of more than"),
        (lambda: ms.sliding("5s", every="2s", offset="2s"), "must be less than every"),
        (lambda: ms.sliding("5s", every="2s", offset="-2s"), "must be less than every"),
        (lambda: ms.cumulating("5s", every="2s"), "no multiple of every='2s'"),
        (lambda: ms.tumbling("5s", time="evnt"), "Did you mean 'event'"),
        (lambda: ms.session("0s"), "gap='0s' must be a duration of more than zero"),
        (lambda: ms.rows(0), "size=0 must be a whole number of at least 1"),
        (lambda: ms.rows(5, every=0), "every=0 must be a whole number of at least 1"),
    ],
)
def test_windows_that_make_no_sense_are_refused(wrong: Any, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        wrong()


def test_slices_and_windows_agree_wherever_time_is() -> None:
    for windows in (
        FixedWindows(6, 6, -2), FixedWindows(6, 4, 1), FixedWindows(2, 5, 3),
        FixedWindows(12, 3, -5, cumulates=True),
    ):  # fmt: skip
        for at in range(-40, 40):
            end = windows.slice_end(at)
            assert end - windows.slice_us <= at < end
            first, last = windows.first_end(end), windows.last_end(end)
            every = [
                e for e in range(-100, 100)
                if windows.start(e) <= at < e
                and (e - windows.offset_us - windows.size_us) % windows.every_us == 0
            ]  # fmt: skip
            assert every == list(range(first, last + 1, windows.every_us))


# ---------------------------------------------------------------- when they fire


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_window_is_emitted_when_event_time_has_come_to_its_end(parallelism: int) -> None:
    elements = [
        click("a", 1),
        click("b", 3, 5),
        until(9.999999),
        click("a", 9.5, 2),
        until(10),
        click("a", 12),
        until(19),
    ]
    result = run(windowed(ms.tumbling("10s")), {"clicks": elements}, parallelism=parallelism)
    found = emitted(result)
    assert sorted(found[1:3]) == [("a", 0, 10, 2, 3), ("b", 0, 10, 1, 5)]
    assert [found[0], *found[3:]] == [
        until(9.999999),
        until(10),
        until(19),
        ("a", 10, 20, 1, 1),
        LAST,
    ]
    assert result.state("windows", "panes") == {}


def test_a_window_without_rows_emits_nothing() -> None:
    elements = [click("a", 1), until(100), click("a", 101), until(200)]
    result = run(windowed(ms.tumbling("10s")), {"clicks": elements}, parallelism=1)
    assert emitted(result) == [
        ("a", 0, 10, 1, 1), until(100), ("a", 100, 110, 1, 1), until(200), LAST,
    ]  # fmt: skip


def test_a_row_that_no_window_takes_any_more_is_late() -> None:
    elements = [click("a", 1), until(10), click("a", 9.9, 7), click("b", 10), until(20)]
    build = windowed(ms.tumbling("10s"))
    assert output(build, elements) == [("a", 0, 10, 1, 1), ("b", 10, 20, 1, 1)]
    assert output(build, elements, "late") == [("a", 9.9, 7)]


def test_a_row_that_is_late_for_some_windows_counts_in_the_others() -> None:
    build = windowed(ms.sliding("6s", every="2s"))
    elements = [click("a", 5), until(6), click("a", 3, 10), until(7), click("a", 1.9)]
    assert output(build, elements) == sorted(
        [("a", 0, 6, 1, 1), ("a", 2, 8, 2, 11), ("a", 4, 10, 1, 1)], key=repr
    )
    assert output(build, elements, "late") == [("a", 1.9, 1)]


def test_within_its_lateness_a_window_takes_rows_and_is_emitted_once() -> None:
    build = windowed(ms.tumbling("10s"), lateness="5s")
    elements = [click("a", 1), until(14), click("a", 2), until(15), click("a", 3), click("b", 11)]
    result = run(build, {"clicks": elements}, parallelism=1)
    assert emitted(result) == [
        until(14), ("a", 0, 10, 2, 2), until(15), ("b", 10, 20, 1, 1), LAST,
    ]  # fmt: skip
    assert shown(result.output("late")) == [("a", 3, 1)]


def test_a_pane_goes_with_the_last_window_that_needs_it() -> None:
    build = windowed(ms.sliding("4s", every="2s"), lateness="1s")
    rows = [click("a", 1), click("b", 3)]
    keys = {
        at: set(run(build, {"clicks": [*rows, until(at)]}, ends=False).state("windows", "panes"))
        for at in (3, 4, 4.9, 5, 6.9, 7)
    }
    both = {("a", s(2)), ("b", s(4))}
    assert keys == {3: both, 4: both, 4.9: both, 5: both - {("a", s(2))} | {("b", s(4))},
                    6.9: {("b", s(4))}, 7: set()}  # fmt: skip


def test_rows_without_a_time_are_in_no_window() -> None:
    build = windowed(ms.tumbling("10s"))
    elements = [click("a", 1), click("a", None, 3), click("b", None, 4)]
    assert output(build, elements) == [("a", 0, 10, 1, 1)]
    assert output(build, elements, "late") == [("a", None, 3), ("b", None, 4)]


def test_an_idle_source_does_not_hold_windows_back() -> None:
    def build(env: ms.Environment) -> None:
        both = clicks(env, "web").union(clicks(env, "app"))
        keyed = both.key_by("user").window(ms.tumbling("10s"))
        keyed.aggregate(n=ms.count(), uid="windows").sink(Memory(), uid="out")

    elements = [("web", click("a", 1)), ("web", until(10)), ("app", idle()), ("web", until(11))]
    result = run(build, elements, ends=False)
    assert emitted(result)[:2] == [("a", 0, 10, 1), until(10)]


# ---------------------------------------------------------------- snapshots


def test_what_has_fired_does_not_fire_again_and_late_rows_stay_late() -> None:
    elements = [
        click("a", 1), until(10), snapshot(), crash(), click("a", 2), until(11), click("a", 12),
        snapshot(), crash(), click("a", 13), until(20), click("a", 3),
    ]  # fmt: skip
    for mode in ("exactly_once", "unaligned"):
        result = run(windowed(ms.tumbling("10s")), {"clicks": elements}, mode=mode)
        assert shown(result.output("out")) == [("a", 0, 10, 1, 1), ("a", 10, 20, 2, 2)]
        assert sorted(shown(result.output("late"))) == [("a", 2, 1), ("a", 3, 1)]


def test_sliding_windows_go_on_from_their_panes_after_a_restore() -> None:
    elements = [
        click("a", 1), click("b", 5, 3), until(4), snapshot(), crash(), click("a", 5, 2), until(6),
        snapshot(), crash(), until(8), click("a", 9), crash(),
    ]  # fmt: skip
    for aggregates in ({"n": ms.count(), "t": ms.sum("amount")}, {"t": ms.max("amount")}):

        def build(env: ms.Environment, aggregates: Any = aggregates) -> None:
            found = clicks(env).key_by("user").window(ms.sliding("6s", every="2s"))
            found.aggregate(**aggregates, uid="windows").sink(Memory(), uid="out")

        without = [each for each in elements if each not in (snapshot(), crash())]
        assert output(build, elements) == output(build, without)


# ---------------------------------------------------------------- updates and early results


def test_updates_come_at_the_end_with_late_rows_and_at_last() -> None:
    build = windowed(ms.tumbling("10s"), lateness="5s", emit="update")
    elements = [
        click("a", 1), click("b", 2), until(10), click("a", 3, 5), until(14), click("b", 4),
        click("c", 5), until(15), click("a", 6), click("a", 11), until(25),
    ]  # fmt: skip
    result = run(build, {"clicks": elements}, parallelism=1)
    found = emitted(result)
    assert sorted(found[:2]) == [("a", 0, 10, 1, 1, False), ("b", 0, 10, 1, 1, False)]
    assert found[2:4] == [until(10), ("a", 0, 10, 2, 6, False)]
    assert found[4] == until(14)
    assert sorted(found[5:7]) == [("b", 0, 10, 2, 2, False), ("c", 0, 10, 1, 1, False)]
    assert sorted(found[7:10]) == [
        ("a", 0, 10, 2, 6, True), ("b", 0, 10, 2, 2, True), ("c", 0, 10, 1, 1, True),
    ]  # fmt: skip
    assert found[10:] == [until(15), ("a", 10, 20, 1, 1, True), until(25), LAST]
    assert shown(result.output("late")) == [("a", 6, 1)]


def test_final_rows_of_updates_are_those_of_final_windows() -> None:
    elements = [click("a", 1), until(7), click("b", 2), until(9), click("a", 3), until(30)]
    for window in (ms.tumbling("5s"), ms.sliding("6s", every="2s"), ms.cumulating("6s", "2s")):
        final = output(windowed(window, lateness="3s"), elements)
        updates = output(windowed(window, lateness="3s", emit="update"), elements)
        assert [row[:-1] for row in updates if row[-1]] == final


def test_early_results_have_the_keys_that_have_changed() -> None:
    build = windowed(ms.tumbling("10s"), emit="early", every="5s")
    elements = [
        click("a", 1), click("b", 2), advance_clock("5s"), click("a", 3), advance_clock("4s"),
        advance_clock("1s"), advance_clock("50s"), until(10), advance_clock("50s"),
    ]  # fmt: skip
    found = emitted(run(build, {"clicks": elements}, parallelism=1))
    assert sorted(found[:2]) == [("a", 0, 10, 1, 1, False), ("b", 0, 10, 1, 1, False)]
    assert found[2] == ("a", 0, 10, 2, 2, False)
    assert sorted(found[3:5]) == [("a", 0, 10, 2, 2, True), ("b", 0, 10, 1, 1, True)]
    assert found[5:] == [until(10), LAST]


def test_after_a_restore_early_results_are_emitted_again() -> None:
    build = windowed(ms.tumbling("10s"), emit="early", every="5s")
    elements = [click("a", 1), snapshot(), crash(), advance_clock("6s"), until(10)]
    found = emitted(run(build, {"clicks": elements}, parallelism=1))
    assert found == [("a", 0, 10, 1, 1, False), ("a", 0, 10, 1, 1, True), until(10), LAST]


# ---------------------------------------------------------------- processing time


def clocked(**how: Any) -> Any:
    def build(env: ms.Environment) -> None:
        source = env.source(Rows(CLICKS, []), uid="clicks")
        found = source.key_by("user").window(ms.tumbling("10s", time="processing"), **how)
        found.aggregate(n=ms.count(), uid="windows").sink(Memory(), uid="out")

    return build


def counted(result: Any) -> list[tuple[Any, ...]]:
    """Without the bounds, which depend on when the run began."""
    return [(row[0], *row[3:]) for row in emitted(result) if isinstance(row, tuple)]


def test_in_processing_time_a_window_ends_with_the_clock() -> None:
    elements = [click("a", None), click("a", None), advance_clock("10s"), click("b", None)]
    result = run(clocked(), {"clicks": elements}, ends=False)
    assert counted(result) == [("a", 2)]
    assert [key for key, _ in result.state("windows", "panes")] == ["b"]
    (row,) = shown(result.output("out"))
    assert row[2] - row[1] == 10


def test_at_the_end_of_input_windows_of_processing_time_are_emitted() -> None:
    result = run(clocked(), {"clicks": [click("a", None)]})
    assert counted(result) == [("a", 1)]
    assert result.state("windows", "panes") == {}


def test_a_window_that_has_ended_meanwhile_is_emitted_at_once_after_a_restore() -> None:
    elements = [click("a", None), snapshot(), crash(), advance_clock("25s"), click("a", None)]
    assert counted(run(clocked(), {"clicks": elements})) == [("a", 1), ("a", 1)]


# ---------------------------------------------------------------- keys


def keyed_by(*key: Any) -> Any:
    def build(env: ms.Environment) -> None:
        found = clicks(env).key_by(*key).window(ms.sliding("4s", every="2s"))
        found.aggregate(n=ms.count(), uid="windows").sink(Memory(), uid="out")

    return build


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        (("user",), [("a",), (None,)]),
        (("amount",), [(1,), (None,)]),
        (("user", "amount"), [("a", 1), ("a", None), (None, 1)]),
        ((ms.col("amount") + 1,), [(2,), (None,)]),
        ((lambda row: row.user or "", "string"), [("a",), ("",)]),
    ],
)
def test_keys_of_every_kind_have_windows(key: tuple[Any, ...], keys: list[Any]) -> None:
    elements = [click("a", 1, 1), click("a", 1, None), click(None, 3, 1), until(9)]
    found = output(keyed_by(*key), elements)
    width = len(keys[0])
    assert {row[:width] for row in found} == set(keys)
    counts: dict[Any, int] = {}
    for row in found:
        counts[row[width : width + 2]] = counts.get(row[width : width + 2], 0) + row[-1]
    assert counts == {(-2, 2): 2, (0, 4): 3, (2, 6): 1}


def test_rows_are_combined_before_they_are_sent_unless_late_ones_are_read() -> None:
    def build(env: ms.Environment) -> None:
        found = clicks(env).key_by("user").window(ms.tumbling("10s"))
        found.aggregate(n=ms.count(), total=ms.sum("amount"), uid="windows").sink(
            Memory(), uid="out"
        )

    env = ms.Environment(parallelism=2)
    build(env)
    assert "combine" in env.explain()
    env = ms.Environment(parallelism=2)
    windowed(ms.tumbling("10s"))(env)
    assert "combine" not in env.explain()
    elements = [click(f"{n % 3}", n % 20, n) for n in range(60)]
    elements += [until(20), click("1", 3), click("0", None)]
    result = run(build, {"clicks": elements}, parallelism=2)
    assert sorted(shown(result.output("out"))) == output(windowed(ms.tumbling("10s")), elements)


def test_a_stream_without_a_key_has_one_row_for_each_window() -> None:
    def build(env: ms.Environment) -> None:
        found = (
            clicks(env)
            .window(ms.tumbling("10s"))
            .aggregate(n=ms.count(), top=ms.max("amount"), uid="windows")
        )
        found.sink(Memory(), uid="out")

    elements = [click(f"{n}", n, n) for n in range(25)]
    for parallelism in (1, 3):
        found = output(build, elements, parallelism=parallelism)
        assert found == [(0, 10, 10, 9), (10, 20, 10, 19), (20, 30, 5, 24)]


def test_windows_of_windows_nest() -> None:
    def build(env: ms.Environment) -> None:
        small = clicks(env).key_by("user").window(ms.tumbling("5s"))
        counts = small.aggregate(n=ms.count(), uid="small")
        large = counts.window(ms.tumbling("10s"), on="window_end")
        large.aggregate(users=ms.count(), n=ms.sum("n"), uid="large").sink(Memory(), uid="out")
        same = counts.key_by("user").window(ms.tumbling("5s"))
        same.aggregate(n=ms.sum("n"), uid="same").sink(Memory(), uid="same-out")

    elements = [click("a", 1), click("b", 4), click("a", 6), until(12), click("a", 14)]
    assert output(build, elements) == [(0, 10, 3, 3), (10, 20, 1, 1)]
    assert output(build, elements, "same-out") == [
        ("a", 0, 5, 1), ("a", 10, 15, 1), ("a", 5, 10, 1), ("b", 0, 5, 1),
    ]  # fmt: skip


def test_reduce_applies_what_it_knows_to_each_column() -> None:
    def build(env: ms.Environment) -> None:
        found = clicks(env).key_by("user").window(ms.tumbling("10s"))
        found.reduce(max, uid="windows").sink(Memory(), uid="out")

    assert output(build, [click("a", 1, 5), click("a", 2, 3)]) == [("a", 0, 10, 5)]


# ---------------------------------------------------------------- what is refused


def refused(build: Any) -> str:
    env = ms.Environment()
    with pytest.raises(GraphError) as error:
        build(env)
    return str(error.value)


def test_a_window_without_event_time_is_refused() -> None:
    def build(env: ms.Environment) -> None:
        source = env.source(Rows("user string, at timestamp, on timestamp", []), uid="clicks")
        source.key_by("user").window(ms.tumbling("1s")).aggregate(n=ms.count(), uid="w")

    said = refused(build)
    assert "no source before it has a watermark. Say so at the source: watermark=" in said
    assert 'watermark=ms.Watermark("at") or ms.Watermark("on").' in said


def test_a_missing_watermark_is_named_by_the_column_that_the_source_has() -> None:
    def build(env: ms.Environment) -> None:
        source = env.source(Rows("user string, clicked timestamp", []), uid="clicks")
        source.rename(clicked="at").key_by("user").window(ms.tumbling("1s"))

    assert 'at the source: watermark=ms.Watermark("clicked").' in refused(build)


def test_a_time_that_is_gone_or_no_timestamp_is_refused() -> None:
    def gone(env: ms.Environment) -> None:
        mapped = clicks(env).map(lambda row: (row.user, row.amount), "user string, amount long")
        mapped.key_by("user").window(ms.tumbling("1s"))

    def wrong(env: ms.Environment) -> None:
        clicks(env).key_by("user").window(ms.tumbling("1s"), on="amount")

    assert "'at' of its source is no longer in the stream" in refused(gone)
    assert "on='amount' is of type long; the time of an event is a timestamp" in refused(wrong)


@pytest.mark.parametrize(
    ("window", "how", "why"),
    [
        (ms.tumbling("1s"), {"emit": "earl"}, "Did you mean 'early'"),
        (ms.tumbling("1s"), {"emit": "early"}, "needs to know how often"),
        (ms.tumbling("1s"), {"every": "1s"}, "emits none"),
        (ms.tumbling("1s", time="processing"), {"lateness": "1s"}, "no row is late"),
        (ms.tumbling("1s", time="processing"), {"on": "at"}, "no row is late"),
        (ms.tumbling("1s", time="processing"), {"emit": "update"}, "none does"),
        ("1min", {}, "needs a window, not"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(window: Any, how: Any, why: str) -> None:
    def build(env: ms.Environment) -> None:
        clicks(env).key_by("user").window(window, **how)

    assert why in refused(build)


def test_columns_that_would_be_there_twice_are_refused() -> None:
    def aggregate(env: ms.Environment) -> None:
        found = clicks(env).key_by("user").window(ms.tumbling("1s"))
        found.aggregate(window_end=ms.count())

    def key(env: ms.Environment) -> None:
        found = clicks(env).key_by("user").window(ms.tumbling("1s")).aggregate(n=ms.count())
        found.key_by("window_start").window(ms.tumbling("1s")).aggregate(m=ms.count())

    assert "window_end" in refused(aggregate)
    assert "the key has a column 'window_start'" in refused(key)


def test_late_rows_of_what_has_no_windows_are_refused() -> None:
    assert "no side output 'late'" in refused(lambda env: clicks(env).late)
