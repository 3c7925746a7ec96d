"""Patterns find the same on every backend, through a crash in the middle of a match."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.plan.planning import plan_of
from mainstay.testing import Watermark, crash, run, snapshot
from tests.contract.conftest import IMPLEMENTATIONS, IN_MEMORY
from tests.times import t

EVENT = "key string, at timestamp, name string"


def named(letter: str) -> Any:
    return ms.col("name").startswith(letter)


PATTERN = (
    ms.pattern("a", named("a"))
    .followed_by(ms.pattern("b", named("b")).one_or_more().until(named("x")).then("c", named("c")))
    .times(2)
    .within("1min")
)
NAMES = "a1 b1 b2 | c1 x | b3 c2 a2 b4"


def elements() -> list[Any]:
    """The rows of two keys, beside each other; a bar is an epoch and a crash."""
    found: list[Any] = []
    for second, name in enumerate(NAMES.split()):
        if name == "|":
            found += [Watermark(t(second)), snapshot(), crash()]
        else:
            found += [(key, t(second), name) for key in ("k1", "k2")]
    return [*found, Watermark(t(40)), snapshot(), crash(), Watermark(t(1000))]


@pytest.mark.parametrize("order", ["event_time", "arrival"])
@pytest.mark.parametrize("name", IN_MEMORY)
def test_a_match_is_found_through_crashes(
    name: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(graph: Any) -> Any:
        return replace(plan_of(graph), backend=IMPLEMENTATIONS[name])

    def build(env: ms.Environment) -> None:
        events = env.source(Rows(EVENT, []), uid="events", watermark=ms.Watermark("at"))
        found = events.key_by("key").match(
            PATTERN, lambda m: (m.key, " ".join(row.name for row in m.rows)), "k string, m string",
            order=order, skip="none", uid="match",
        )  # fmt: skip
        found.sink(Memory(), uid="out")

    monkeypatch.setattr(import_module("mainstay.testing.run"), "plan_of", planned)
    result = run(build, {"events": elements()}, parallelism=2)
    whole = "a1 b1 b2 c1 b3 c2"
    assert sorted(result.output("out")) == [("k1", whole), ("k2", whole)]
    if order == "event_time":
        # That of a1 might have gone on with b4.
        assert {row[3].name for row in result.side("match", "timed_out")} == {"a1", "a2"}
        assert result.state("match", "partial") == result.state("match", "due") == {}
