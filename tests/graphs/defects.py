"""Bugs to plant in what graphs are made of, each with a graph that has the part."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

from mainstay.api.stream import Stream
from mainstay.runtime.operators.joins import base
from mainstay.runtime.watermarks import GateClock
from mainstay.runtime.worker import assembly
from tests.graphs.operators import Step
from tests.simulation.planting import planting

DEFECTS, defect = planting()


def source(number: int, delay_s: int | None = 5) -> Step:
    return Step(
        "source",
        (),
        {"seed": number, "count": 24, "splits": 2, "delay_s": delay_s, "first": 1 + 1000 * number},
    )


@defect
def a_union_of_a_stream_with_itself_is_that_stream() -> Iterator[None]:
    right = Stream.union

    def once(self: Stream, *others: Stream) -> Stream:
        joined = right(self, *others)
        joined._origins = tuple(dict.fromkeys(joined._origins))
        return joined

    with patch.object(Stream, "union", once):
        yield


@defect
def of_several_readers_in_a_chain_the_first_gets_the_rows() -> Iterator[None]:
    right = assembly._to_all
    with patch.object(assembly, "_to_all", lambda targets: right(targets[:1])):
        yield


@defect
def a_null_in_a_key_matches_null() -> Iterator[None]:
    with patch.object(base, "have_no_null", lambda keys: None):
        yield


@defect
def the_input_that_is_furthest_says_the_time() -> Iterator[None]:
    with patch.object(GateClock, "_held_at", GateClock._furthest):
        yield


_WINDOW = {"window": "tumbling", "by": "aggregate", "key": "k", "lateness_s": 0}

GRAPHS: dict[str, list[Step]] = {
    "a union of a stream with itself is that stream": [
        source(1),
        Step("union", (0, 0)),
        Step("sink", (1,)),
    ],
    "of several readers in a chain the first gets the rows": [
        source(1),
        Step("map", (0,), {"of": "more"}),
        Step("filter", (0,), {"by": "function"}),
        Step("sink", (1,)),
        Step("sink", (2,)),
    ],
    "a null in a key matches null": [
        source(1),
        source(2),
        Step("regular_join", (0, 1), {"key": "k", "how": "inner"}),
        Step("sink", (2,)),
    ],
    "the input that is furthest says the time": [
        source(1),
        source(2),
        Step("union", (0, 1)),
        Step("window", (2,), _WINDOW),
        Step("sink", (3,)),
    ],
}
