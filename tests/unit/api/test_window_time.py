"""Whose column is the end of a window: that is decided by where it comes from, not by its name."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.testing import rows, run
from tests.windows.kit import CLICKS, clicks, s, shown


def windows_of(build: Any, schema: str, at: float) -> list[Any]:
    result = run(build, {"clicks": rows(schema, [("a", s(at), 1)])}, parallelism=1)
    return shown(result.output("out"))


def test_a_column_of_a_source_that_is_called_window_end_is_a_time_as_any_other() -> None:
    schema = CLICKS.replace("at", "window_end")

    def build(env: ms.Environment) -> None:
        source = env.source(rows(schema, []), uid="clicks", watermark=ms.Watermark("window_end"))
        keyed = source.key_by("user").window(ms.tumbling("10s"))
        keyed.aggregate(n=ms.count(), uid="windows").sink(Memory(), uid="out")

    assert windows_of(build, schema, 10) == [("a", 10, 20, 1)]


def test_the_end_of_a_window_is_one_by_another_name() -> None:
    def build(env: ms.Environment) -> None:
        small = clicks(env).key_by("user").window(ms.tumbling("10s"))
        counted = small.aggregate(n=ms.count(), uid="small").rename({"window_end": "until"})
        large = counted.select("user", "until", "n").key_by("user").window(ms.tumbling("20s"))
        large.aggregate(n=ms.sum("n"), uid="large").sink(Memory(), uid="out")

    assert windows_of(build, CLICKS, 15) == [("a", 0, 20, 1)]


def nested(env: ms.Environment, before: str, behind: str) -> None:
    small = clicks(env).key_by("user").window(ms.tumbling("10s"), lateness=before, emit="update")
    counted = small.aggregate(n=ms.count(), uid="small").filter(ms.col("is_final"))
    large = counted.key_by("user").window(ms.tumbling("20s"), lateness=behind)
    large.aggregate(n=ms.sum("n"), uid="large").sink(Memory(), uid="out")


def test_a_window_with_less_lateness_than_the_one_before_it_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"'large' .*of 'small' for late.*lateness=30\)"):
        run(lambda env: nested(env, "30s", "5s"), {"clicks": []})


@pytest.mark.parametrize(("before", "behind"), [("30s", "30s"), ("0s", "0s"), ("0s", "1s")])
def test_a_window_with_as_much_lateness_is_not(before: str, behind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(lambda env: nested(env, before, behind), {"clicks": []})


@pytest.mark.parametrize(
    "name", ["aggregate", "deduplicate", "join", "match", "process_batches", "reduce", "top"]
)
def test_what_goes_by_key_says_so_where_there_is_none(name: str) -> None:
    env = ms.Environment(spark="embedded")
    with pytest.raises(AttributeError, match=rf"{name}.*call key_by\(\.\.\.\) first"):
        getattr(clicks(env), name)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("count", r"aggregate\(n=ms.count\(\)\)"),
        ("sum", r'aggregate\(sum=ms.sum\("column"\)\)'),
        ("apply", "process"),
        ("sink", r"aggregate\(n=ms.count\(\)\)"),
        ("agregate", "mean 'aggregate'"),
    ],
)
def test_what_windows_do_not_have_is_said_with_what_to_write(name: str, instead: str) -> None:
    env = ms.Environment(spark="embedded")
    with pytest.raises(AttributeError, match=instead):
        getattr(clicks(env).window(ms.tumbling("1s")), name)


def test_a_keyed_stream_has_what_goes_by_key() -> None:
    keyed = clicks(ms.Environment(spark="embedded")).key_by("user")
    assert hasattr(keyed, "join")
    assert not hasattr(keyed, "late_left")


@pytest.mark.parametrize("given", [5, None, ["at"]])
def test_a_watermark_needs_the_name_of_a_column(given: Any) -> None:
    with pytest.raises(ms.errors.GraphError, match="needs the name of the column"):
        ms.Watermark(given)


def test_durations_that_are_negative_say_whose_they_are() -> None:
    keyed = clicks(ms.Environment(spark="embedded")).key_by("user")
    with pytest.raises(ms.errors.GraphError, match=r"after operator 'clicks'.*lateness='-1s'"):
        keyed.window(ms.tumbling("1s"), lateness="-1s")
    with pytest.raises(ms.errors.GraphError, match=r"Watermark\('at'\): delay='-1s'"):
        ms.Watermark("at", delay="-1s")


def test_durations_may_be_timedeltas() -> None:
    hour = timedelta(hours=1)
    assert ms.session(hour).gap_us == ms.session("1h").gap_us
    assert ms.tumbling("1 day", offset=-hour).fixed() == ms.tumbling("1 day", offset="-1h").fixed()
    assert ms.interval(-hour, hour).fixed() == ms.interval("-1h", "1h").fixed()
