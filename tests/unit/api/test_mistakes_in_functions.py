"""Mistakes in functions, states and connectors are found early, and named."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Polled, Source, Split, SplitReader
from mainstay.testing import rows
from tests.unit.api.mistakes import SCHEMA, Both, Keyed, Plain, keyed, refused, source, stream


class Batches(ms.KeyedBatchProcess):
    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
        return None


# ---------------------------------------------------------------- functions


@pytest.mark.parametrize("method", ["map", "flat_map", "map_batches", "filter"])
def test_a_row_function_must_be_one(method: str) -> None:
    add = partial(getattr(stream(), method), uid="op")
    more = () if method == "filter" else (SCHEMA,)
    where = f"operator 'op' ({method})"

    async def later(row: Any) -> Any:
        return row

    class Stateful:
        total = ms.ValueState("long")

        def __call__(self, row: Any) -> Any:
            return row

    refused(lambda: add("upper", *more), where, "'upper'")
    refused(lambda: add(lambda: 1, *more), where, "<lambda>() cannot be called with 1 argument")
    refused(lambda: add(lambda a, b: 1, *more), where, "<lambda>(a, b)", "missing", "'b'")
    refused(lambda: add(later, *more), where, "later is async")
    refused(lambda: add(Stateful(), *more), where, "Stateful", "state (total)", "KeyedProcess")
    refused(lambda: add(Plain(), *more), where, "Process Plain", "process(...)")
    refused(lambda: add(Keyed, *more), where, "KeyedProcess Keyed", "process(...)")


@pytest.mark.parametrize("method", ["map", "map_batches", "filter"])
def test_only_flat_map_may_yield(method: str) -> None:
    def several(row: Any) -> Any:
        yield row

    more = () if method == "filter" else (SCHEMA,)
    refused(lambda: getattr(stream(), method)(several, *more), method, "several", "flat_map")
    stream().flat_map(several, SCHEMA)


def test_built_in_and_partial_functions_are_functions() -> None:
    stream().map(len, "n long").map(partial(max, 3), "n long").filter(str.isdigit)


def test_an_instance_of_the_right_class_is_needed() -> None:
    refused(lambda: stream().process(Plain, SCHEMA, uid="p"), "'p'", "class Plain", "Plain(...)")
    refused(lambda: keyed().process(Keyed, SCHEMA), "process() after operator 'in'", "instance")
    refused(lambda: stream().process(Keyed(), SCHEMA, uid="p"), "'p'", "Process", "key_by(...)")
    refused(lambda: keyed().process(Plain(), SCHEMA, uid="p"), "'p'", "KeyedProcess", "Plain")
    refused(lambda: keyed().process(Batches(), SCHEMA, uid="p"), "'p'", "KeyedProcess", "Batches")
    refused(lambda: keyed().process_batches(Keyed(), SCHEMA), "KeyedBatchProcess", "process(...)")
    refused(lambda: keyed().process(lambda row: row, SCHEMA), "KeyedProcess", "<lambda>")


def test_connected_streams_need_a_function_of_two_inputs() -> None:
    env = ms.Environment()
    connected = source(env, "left").key_by("k").connect(source(env, "right").key_by("k"))
    refused(lambda: connected.process(Both, SCHEMA, uid="c"), "'c' (connect)", "class Both")
    refused(lambda: connected.process(Keyed(), SCHEMA), "'left'", "'right'", "CoKeyedProcess")


def test_a_function_needs_its_methods_with_their_parameters() -> None:
    class Empty(ms.KeyedProcess):
        pass

    class OneSided(ms.CoKeyedProcess):
        def process_left(self, row: Any, ctx: Any) -> Any:
            return None

    class NoContext(ms.KeyedProcess):
        def process(self, row: Any) -> Any:  # type: ignore[override]
            return None

    class BadOpen(Keyed):
        def open(self) -> None:  # type: ignore[override]
            return None

    refused(
        lambda: keyed().process(Empty(), SCHEMA, uid="p"),
        *("'p'", "class Empty has no method process", "def process(self, row, ctx)"),
    )
    env = ms.Environment()
    connected = source(env, "left").key_by("k").connect(source(env, "right").key_by("k"))
    refused(lambda: connected.process(OneSided(), SCHEMA), "OneSided", "process_right")
    refused(lambda: keyed().process(NoContext(), SCHEMA), "process(row", "2 arguments")
    refused(lambda: keyed().process(BadOpen(), SCHEMA), "open()", "1 argument")


def test_reduce_needs_a_function_of_two_rows() -> None:
    refused(lambda: keyed().reduce(lambda row: row, uid="r"), "'r' (reduce)", "2 arguments")


def test_a_function_that_cannot_be_shipped_is_named_with_the_remedy() -> None:
    lock = threading.Lock()

    def guarded(row: Any) -> Any:
        with lock:
            return row

    env = ms.Environment()
    source(env).map(guarded, SCHEMA, uid="locked").sink(Memory(), uid="out")
    refused(env.plan, "operator 'locked' (map)", "lock", "open()")


LOCK = threading.Lock()


class Locked(ms.KeyedProcess):
    """Found by its name and so shipped without its contents; the state's function is not."""

    total = ms.ReducingState("long", lambda a, b: (LOCK, a + b)[1])

    def process(self, row: Any, ctx: Any) -> Any:
        return None


def test_a_state_that_cannot_be_shipped_is_named_with_its_operator() -> None:
    env = ms.Environment()
    keyed = source(env).key_by("k")
    keyed.process(Locked(), SCHEMA, uid="locked").sink(Memory(), uid="out")
    refused(env.plan, "operator 'locked' (process)", "lock")


# ---------------------------------------------------------------- states


def test_keyed_state_needs_a_key() -> None:
    class Wrong(ms.Process):
        total = ms.ValueState("long")

        def process(self, row: Any, ctx: Any) -> Any:
            return None

    refused(lambda: stream().process(Wrong(), SCHEMA, uid="p"), "'p'", "(total)", "key_by(...)")
    env = ms.Environment()
    connected = source(env, "left").connect(source(env, "right").broadcast())
    refused(lambda: connected.process(Both(), SCHEMA, uid="c"), "'c'", "(total)", "key_by(...)")


def test_a_state_made_by_the_constructor_is_explained() -> None:
    class Late(ms.KeyedProcess):
        def __init__(self) -> None:
            self.total = ms.ValueState("long")

        def process(self, row: Any, ctx: Any) -> Any:
            return None

    refused(
        lambda: keyed().process(Late(), SCHEMA, uid="p"),
        *("operator 'p'", "self.total is a ValueState", "class Late: total = ValueState(...)"),
    )


def test_a_state_that_covers_up_a_declared_one_is_explained_as_well() -> None:
    class Late(Keyed):
        def __init__(self) -> None:
            self.total = ms.ValueState("string")

    refused(lambda: keyed().process(Late(), SCHEMA), "self.total", "body of the class")


# ---------------------------------------------------------------- connectors


class Strange(Source):
    def plan(self, seen: frozenset[str]) -> list[Split]:
        return []

    def read(self, split: Split, offset: Any) -> SplitReader:
        raise NotImplementedError


@pytest.mark.parametrize("wrong", [None, "orders.csv", [1], Memory(), Polled(None, 0)])
def test_a_source_must_be_one(wrong: Any) -> None:
    env = ms.Environment()
    refused(lambda: env.source(wrong, uid="in"), "operator 'in' (source)", "connectors.Source")
    refused(lambda: env.source(Strange), "the class Strange", "instance")


def test_a_source_must_say_its_schema_in_sparks_types() -> None:
    for schema in (None, "k string", pa.schema([("k", pa.large_string())])):
        strange = Strange()
        if schema is not None:
            strange.schema = schema
        refused(
            lambda s=strange: ms.Environment().source(s, uid="in"), "'in'", "Strange", "to_schema"
        )


@pytest.mark.parametrize("wrong", [None, "./out", rows("n long", [])])
def test_a_sink_must_be_one(wrong: Any) -> None:
    refused(lambda: stream().sink(wrong, uid="out"), "operator 'out' (sink)", "connectors.Sink")
    refused(lambda: stream().sink(Memory), "sink() after operator 'in'", "class Memory")
