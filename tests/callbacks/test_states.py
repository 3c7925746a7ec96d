"""States used where they must not be: without a key, after the call, as methods."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError, MainstayError
from mainstay.state import keyed
from mainstay.testing import rows, run
from tests.callbacks.running import environment, finish

OUT = "k string, n long"
ROWS = [(f"k{n % 3}", n, datetime(2026, 1, 1, tzinfo=timezone.utc)) for n in range(12)]
NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
HOOKS = ("open", "on_snapshot", "on_snapshot_complete")

Act = Callable[[Any], Any]
USES: dict[str, tuple[Callable[[], Any], list[Act]]] = {
    "ValueState": (
        lambda: ms.ValueState("long"),
        [lambda s: s.get(), lambda s: s.update(1), lambda s: s.clear()],
    ),
    "ListState": (
        lambda: ms.ListState("long"),
        [lambda s: s.get(), lambda s: s.add(1), lambda s: s.update([1]), lambda s: s.clear()],
    ),
    "MapState": (
        lambda: ms.MapState("string", "long"),
        [
            lambda s: s.get("a"),
            lambda s: s.put("a", 1),
            lambda s: list(s.items()),
            lambda s: "a" in s,
            lambda s: len(s),
            lambda s: list(s),
            lambda s: s.clear(),
        ],
    ),
    "ReducingState": (
        lambda: ms.ReducingState("long", max),
        [lambda s: s.get(), lambda s: s.add(1), lambda s: s.clear()],
    ),
    "Timer": (
        lambda: ms.Timer("event_time"),
        [lambda s: s.get(), lambda s: s.set(NOW), lambda s: s.clear()],
    ),
}


def function(kind: str, hook: str, act: Act) -> ms.KeyedProcess:
    class Using(ms.KeyedProcess):
        state = USES[kind][0]()

        def use(self, here: str) -> None:
            if here == hook:
                act(self.state)

        def open(self, ctx: Any) -> None:
            self.use("open")

        def process(self, row: Any, ctx: Any) -> Any:
            return row.k, row.n

        def on_timer(self, at: Any, ctx: Any) -> Any:
            return None

        def on_snapshot(self, epoch: int) -> None:
            self.use("on_snapshot")

        def on_snapshot_complete(self, epoch: int) -> None:
            self.use("on_snapshot_complete")

        def close(self) -> None:
            self.use("close")

    return Using()


def build(env: ms.Environment, keyed: Any, sink: Any) -> None:
    source = rows("k string, n long, at timestamp", ROWS)
    stream = env.source(source, uid="in", watermark=ms.Watermark("at"))
    stream.key_by("k").process(keyed, OUT, uid="f").sink(sink, uid="out")


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("kind", USES)
def test_keyed_state_where_there_is_no_key_is_refused_with_the_operator(
    kind: str, hook: str
) -> None:
    for act in USES[kind][1]:
        used = function(kind, hook, act)
        with pytest.raises(MainstayError, match=rf"(?s)operator 'f'.*in {hook}\(\).*key"):
            run(lambda env, used=used: build(env, used, ms.connectors.Memory()), parallelism=1)


@pytest.mark.parametrize("kind", USES)
def test_keyed_state_in_close_is_told_and_changes_no_result(kind: str, tmp_path: Path) -> None:
    env, sink = environment(tmp_path, "embedded", 0), ms.connectors.Memory()
    build(env, function(kind, "close", USES[kind][1][0]), sink)
    seen = finish(env, sink)
    assert (seen.status, sum(seen.rows.values())) == ("finished", len(ROWS))
    assert "operator 'f', subtask" in seen.logged
    assert "in close()" in seen.logged


METHODS = ("process", "on_timer")


@pytest.mark.parametrize("declared", [ms.ValueState("long"), ms.Timer("event_time")])
@pytest.mark.parametrize("name", METHODS)
def test_a_state_in_the_place_of_a_method_that_is_called_is_refused(
    name: str, declared: Any
) -> None:
    members: dict[str, Any] = {
        "process": lambda self, row, ctx: (row.k, row.n),
        "on_timer": lambda self, at, ctx: None,
    }
    clashing = type("Clashing", (ms.KeyedProcess,), members | {name: declared})()
    with pytest.raises(
        GraphError, match=f"operator 'f'.*{name} is a .* in the place of the method"
    ):
        build(ms.Environment(spark="embedded"), clashing, ms.connectors.Memory())


class Lasting(ms.KeyedProcess):
    """Keeps ``ctx`` and a handle, and uses them for the next row: of the key that is current."""

    count = ms.ValueState("long")

    def __init__(self) -> None:
        self.kept: Any = None

    def process(self, row: Any, ctx: Any) -> Any:
        count, last = self.kept or (self.count, ctx)
        self.kept = (self.count, ctx)
        count.update((count.get() or 0) + 1)
        return last.key, count.get()


def test_a_handle_that_is_kept_goes_by_the_key_of_the_row_that_is_processed() -> None:
    result = run(lambda env: build(env, Lasting(), ms.connectors.Memory()), parallelism=1)
    assert result.state("f", "count") == {"k0": 4, "k1": 4, "k2": 4}
    assert sorted(result.output("out")) == sorted(
        (f"k{k}", n) for k in range(3) for n in range(1, 5)
    )


@pytest.mark.mutation
def test_keyed_state_that_is_kept_for_no_key_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed.NoKey, "__hash__", lambda _: 0)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_keyed_state_where_there_is_no_key_is_refused_with_the_operator("ValueState", "open")
