"""Calls of the API with values that nobody should give it, on streams of random graphs.

Each is refused with an error of Mainstay, or is a graph that can be planned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import mainstay as ms
from mainstay.errors import MainstayError
from mainstay.plan.check import check_graph
from mainstay.plan.planning import plan_of
from tests.graphs.drawing import drawn_graph
from tests.graphs.keyed import Tally
from tests.graphs.operators import KINDS, Step
from tests.graphs.playing import named
from tests.graphs.rows import ROW

Call = Callable[[Any], Any]
"""A call that gets whatever is drawn for each of its arguments from the function it is given."""


class _Odd:
    """An object that is nothing in particular."""


def values(random: Random, streams: Sequence[Any]) -> Any:
    """Something of any kind, right or wrong."""
    stream = random.choice(streams)
    return random.choice(
        [
            None,
            0,
            1,
            3,
            -1,
            1 << 70,
            True,
            1.5,
            float("nan"),
            "",
            "k",
            "n",
            "at",
            "x",
            "missing",
            "1s",
            "-1s",
            "0s",
            "long",
            "struct<a:map<string,int>>",
            "map<string,int>",
            "no type",
            ROW,
            b"k",
            [],
            ["k"],
            ("k", "n"),
            {},
            {"k": "n"},
            _Odd(),
            _Odd,
            int,
            tuple,
            lambda row: row,
            lambda: 1,
            lambda a, b: a,
            ms.col("k"),
            ms.col("missing"),
            ms.col("n") + 1,
            ms.col("k") + 1,
            ms.count(),
            ms.sum("k"),
            ms.sum("missing"),
            ms.max("x"),
            ms.collect("at"),
            ms.tumbling("1s"),
            ms.session("2s"),
            ms.rows(3),
            ms.interval("-1s", "2s"),
            ms.Watermark("at"),
            ms.connectors.Memory(),
            ms.connectors.Rows(ROW, []),
            Tally(),
            Tally,
            stream,
            "key",
            "inner",
            "full",
            "first",
            "last",
        ]
    )


def calls() -> dict[str, Callable[[Any, Any, Callable[[], Any]], Any]]:
    """By name: a call of a stream, of a keyed one, or of the environment."""
    return {
        "map": lambda env, s, any: s.map(any(), any()),
        "flat_map": lambda env, s, any: s.flat_map(any(), ROW),
        "filter": lambda env, s, any: s.filter(any()),
        "filter_batches": lambda env, s, any: s.filter_batches(any()),
        "map_batches": lambda env, s, any: s.map_batches(any(), any()),
        "map_async": lambda env, s, any: s.map_async(
            tuple, ROW, capacity=any(), timeout=any(), retries=any()
        ),
        "process": lambda env, s, any: s.process(any(), any()),
        "side": lambda env, s, any: s.side(any()),
        "union": lambda env, s, any: s.union(any(), any()),
        "partition_by": lambda env, s, any: s.partition_by(any()).map(tuple, ROW),
        "key_by": lambda env, s, any: s.key_by(any(), any()),
        "key_by_one": lambda env, s, any: s.key_by(any()),
        "select": lambda env, s, any: s.select(any(), other=any()),
        "with_columns": lambda env, s, any: s.with_columns(n=any(), more=any()),
        "rename": lambda env, s, any: s.rename(k=any()),
        "renames": lambda env, s, any: s.rename(any()),
        "drop": lambda env, s, any: s.drop(any(), any()),
        "window": lambda env, s, any: s.window(any(), on=any(), lateness=any()),
        "connect": lambda env, s, any: s.connect(any()),
        "iterate": lambda env, s, any: s.iterate(lambda head: (any(), any())),
        "iterate_rounds": lambda env, s, any: s.iterate(
            lambda head: (head, head), round_column=any(), max_rounds=any()
        ),
        "sink": lambda env, s, any: s.sink(any()),
        "settings": lambda env, s, any: s.map(
            tuple, ROW, uid=any(), parallelism=any(), max_parallelism=any(), chain=any()
        ),
        "source": lambda env, s, any: env.source(any(), uid=any(), watermark=any()),
        "env_connect": lambda env, s, any: env.connect(a=any(), b=any()),
        "aggregate": lambda env, s, any: s.key_by("k").aggregate(a=any(), b=any()),
        "reduce": lambda env, s, any: s.key_by("k").reduce(any()),
        "keyed_process": lambda env, s, any: s.key_by("k").process(any(), any()),
        "batches": lambda env, s, any: s.key_by("k").process_batches(any(), any()),
        "deduplicate": lambda env, s, any: s.key_by("k").deduplicate(
            any(), within=any(), by=any(), on=any()
        ),
        "top": lambda env, s, any: s.key_by("k").top(any(), by=any()),
        "join": lambda env, s, any: s.key_by("k").join(
            any(), how=any(), within=any(), window=any(), as_of=any(), on=any(), suffix=any()
        ),
        "join_keyed": lambda env, s, any: s.key_by("k").join(
            s.key_by("k"), within=any(), on=any(), suffix=any()
        ),
        "join_kept": lambda env, s, any: s.key_by("k").join(
            s.key_by("k"), keep=any(), ttl=any(), suffix="_r"
        ),
        "window_aggregate": lambda env, s, any: (
            s.key_by("k")
            .window(ms.tumbling("1s"), on=any(), emit=any(), every=any())
            .aggregate(a=any())
        ),
        "window_top": lambda env, s, any: (
            s.key_by("k").window(ms.tumbling("1s"), on="at").top(any(), by=any())
        ),
        "window_reduce": lambda env, s, any: s.window(ms.tumbling("1s"), on="at").reduce(any()),
        "tumbling": lambda env, s, any: ms.tumbling(any(), offset=any()),
        "sliding": lambda env, s, any: ms.sliding(any(), every=any()),
        "session": lambda env, s, any: (
            s.key_by("k").window(ms.session(any()), on="at").aggregate(n=ms.count())
        ),
        "rows": lambda env, s, any: ms.rows(any(), any()),
        "interval": lambda env, s, any: ms.interval(any(), any()),
        "watermark": lambda env, s, any: ms.Watermark(any(), delay=any(), idle=any()),
        "rebalance": lambda env, s, any: s.key_by("k").rebalance(),
        "broadcast": lambda env, s, any: s.broadcast().key_by("k"),
    }


def check_misuse(seed: int) -> int:
    """Make some calls on the streams of a graph. Returns how many were refused."""
    random = Random(f"misuse-{seed}")
    steps = drawn_graph(random.randrange(10_000))
    env, streams = ms.Environment(spark="embedded", max_parallelism=200), []
    for uid, step in named(steps):
        streams += _built(env, uid, step, streams)
    known, refused = calls(), 0
    for _ in range(10):
        name = random.choice(sorted(known))
        given: list[Any] = []

        def drawn(given: list[Any] = given) -> Any:
            given.append(values(random, streams))
            return given[-1]

        try:
            found = known[name](env, random.choice(streams), drawn)
        except MainstayError:
            refused += 1
        except Exception as error:
            shown = type(error).__name__
            raise AssertionError(f"seed {seed}: {name} of {given!r}: {shown}: {error}") from error
        else:
            if isinstance(found, ms.Stream):
                found.sink(ms.connectors.Memory())
    return refused + _planned(seed, env)


def _built(env: Any, uid: str, step: Step, streams: Sequence[Any]) -> list[Any]:
    read = [streams[number] for number in step.inputs]
    params = {name: each for name, each in step.params.items() if name != "settings"}
    return KINDS[step.kind].build(env, uid, params, read, dict(step.params.get("settings", {})))


def _planned(seed: int, env: Any) -> int:
    try:
        graph = env.graph()
        check_graph(graph)
        plan_of(graph)
    except MainstayError:
        return 1
    except Exception as error:
        shown = type(error).__name__
        raise AssertionError(f"seed {seed}, planned: {shown}: {error}") from error
    return 0
