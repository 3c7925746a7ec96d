"""Programs that are wrong, for the tests of what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.testing import rows

SCHEMA = "k string, n long"


class Keyed(ms.KeyedProcess):
    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Plain(ms.Process):
    seen = ms.OperatorListState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Both(ms.CoKeyedProcess):
    total = ms.ValueState("long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        return None

    def process_right(self, row: Any, ctx: Any) -> Any:
        return None


def source(env: ms.Environment, uid: str = "in", schema: str = SCHEMA) -> ms.Stream:
    return env.source(rows(schema, []), uid=uid)


def stream() -> ms.Stream:
    return source(ms.Environment(max_parallelism=8))


def keyed() -> ms.KeyedStream:
    return stream().key_by("k")


def refused(build: Callable[[], Any], *parts: str) -> None:
    """The call is refused, and the message has all the parts, in that order."""
    with pytest.raises(GraphError) as caught:
        build()
    text, place = str(caught.value), 0
    for part in parts:
        assert part in text[place:], f"{part!r} is not in its place in: {text}"
        place = text.index(part, place)
