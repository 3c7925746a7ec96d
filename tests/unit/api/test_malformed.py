"""Records that a source could not read, in a stream of their own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import GraphError
from mainstay.testing import run

BAD = "struct<position:string,error:string,raw:binary>"


def aside() -> Rows:
    """A source that could not read every third record."""
    bad = [n % 3 == 0 for n in range(30)]
    told = [(f"file:{n}", "no number", b"x%d" % n) if b else None for n, b in enumerate(bad)]
    rows = [(None if b else n, told[n]) for n, b in enumerate(bad)]
    source = Rows(f"n long, _malformed {BAD}", rows, splits=2)
    source.malformed_column = "_malformed"
    return source


def test_they_are_in_a_stream_of_their_own() -> None:
    def build(env: Any) -> None:
        numbers = env.source(aside(), uid="in")
        assert numbers.schema == pa.schema([("n", pa.int64())])
        numbers.sink(Memory(), uid="out")
        numbers.malformed.sink(Memory(), uid="bad")

    result = run(build, crashes=2, seed=3)
    assert sorted(result.output("out")) == [(n,) for n in range(30) if n % 3]
    expected = [(f"file:{n}", "no number", b"x%d" % n) for n in range(0, 30, 3)]
    assert sorted(result.output("bad")) == sorted(expected)


def test_they_are_not_left_unread_silently() -> None:
    env = ms.Environment()
    env.source(aside(), uid="in").sink(Memory(), uid="out")
    with pytest.raises(GraphError, match="'in' puts malformed records aside"):
        env.graph()
