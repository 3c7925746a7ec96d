"""What a function may ask of its ``ctx``, and what it may not do to it."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import MainstayError
from mainstay.runtime.row_context import ProcessContext
from mainstay.testing import rows, run

SCHEMA = "k string, n long"
VALUES = [("a", 1), ("A ", 2), ("b", 3), ("B", 4)] * 5


class Normalising(ms.KeyedProcess):
    """Means the state of another key than the row's."""

    count = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        ctx.key = ctx.key.strip().lower()
        self.count.update((self.count.get() or 0) + 1)
        yield ctx.key, self.count.get()


class OnOpen(ms.KeyedProcess):
    def open(self, ctx: Any) -> None:
        self.key = f"{ctx.key}"

    def process(self, row: Any, ctx: Any) -> Any:
        return row


class Unkeyed(ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, row.n


class InBatch(ms.KeyedBatchProcess):
    def process(self, batch: Any, ctx: Any) -> Any:
        yield ctx.key, 1


class Broadcast(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, row.n

    def process_right(self, row: Any, ctx: Any) -> Any:
        yield ctx.key, row.n


def built(function: Any) -> Any:
    def build(env: ms.Environment) -> None:
        stream = env.source(rows(SCHEMA, VALUES), uid="in")
        if isinstance(function, ms.Process):
            made = stream.process(function, SCHEMA, uid="f")
        elif isinstance(function, ms.KeyedBatchProcess):
            made = stream.key_by("k").process_batches(function, SCHEMA, uid="f")
        elif isinstance(function, ms.CoKeyedProcess):
            both = stream.key_by("k").connect(stream.broadcast())
            made = both.process(function, SCHEMA, uid="f")
        else:
            made = stream.key_by("k").process(function, SCHEMA, uid="f")
        made.sink(Memory(), uid="out")

    return build


@pytest.mark.parametrize("parallelism", [1, 2])
def test_assigning_the_key_is_refused_where_it_is_done_and_names_key_by(parallelism: int) -> None:
    with pytest.raises(MainstayError, match=r"ctx\.key cannot be assigned") as raised:
        run(built(Normalising()), parallelism=parallelism)
    assert "key_by(lambda row" in str(raised.value)
    assert "ctx.key = ctx.key.strip().lower()" in str(raised.value)


def test_the_remedy_for_an_assigned_key_keeps_one_state_for_each_key_that_is_meant() -> None:
    class Counting(ms.KeyedProcess):
        count = ms.ValueState("long")

        def process(self, row: Any, ctx: Any) -> Any:
            self.count.update((self.count.get() or 0) + 1)
            yield ctx.key, self.count.get()

    def build(env: ms.Environment) -> None:
        keyed = env.source(rows(SCHEMA, VALUES), uid="in").key_by(
            lambda row: row.k.strip().lower(), "string"
        )
        keyed.process(Counting(), SCHEMA, uid="f").sink(Memory(), uid="out")

    assert run(build, parallelism=2).state("f", "count") == {"a": 10, "b": 10}


@pytest.mark.parametrize("function", [OnOpen(), Unkeyed(), InBatch(), Broadcast()])
def test_using_the_key_where_there_is_none_is_an_error_that_says_so(function: Any) -> None:
    with pytest.raises(MainstayError, match=r"ctx\.key was used where there is no key"):
        run(built(function), parallelism=2)


def test_a_key_that_is_null_is_a_key() -> None:
    class Named(ms.KeyedProcess):
        def process(self, row: Any, ctx: Any) -> Any:
            yield str(ctx.key), row.n

    def build(env: ms.Environment) -> None:
        keyed = env.source(rows(SCHEMA, [(None, 1), ("a", 2)]), uid="in").key_by("k")
        keyed.process(Named(), SCHEMA, uid="f").sink(Memory(), uid="out")

    assert sorted(run(build, parallelism=1).output("out")) == [("None", 1), ("a", 2)]


def test_an_assigned_key_redirects_no_state() -> None:
    ctx = ProcessContext("f", 0, 1)
    ctx.key = ctx.current_key = "a"
    ctx.check_key(Normalising.process)
    ctx.key = "b"
    assert ctx.current_key == "a"
    with pytest.raises(
        MainstayError, match=r"cannot be assigned \(test_row_context.py:\d+: ctx.key ="
    ):
        ctx.check_key(Normalising.process)
    ctx.leave()
    ctx.check_key(Normalising.process)
