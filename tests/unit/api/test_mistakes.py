"""Every mistake in a graph is a GraphError that names the operator and the remedy."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory, Polled, Source, Split, SplitReader
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


class Batches(ms.KeyedBatchProcess):
    total = ms.ValueState("long")

    def process(self, batch: Any, ctx: Any) -> Any:
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


# ---------------------------------------------------------------- columns and schemas


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    refused(lambda: stream().key_by("nobody"), "key_by() after operator 'in'", "'nobody'", "k, n")
    refused(lambda: stream().key_by("k", 0), "there is no column 0")
    refused(lambda: stream().key_by(["k", "n"]), "['k', 'n']", 'key_by("a", "b")')


def test_a_key_needs_columns_each_once() -> None:
    refused(lambda: stream().key_by(), "'in'", "at least one column")
    refused(lambda: stream().key_by("k", "k"), "named twice")


def test_a_key_must_be_of_a_type_that_can_be_hashed() -> None:
    env = ms.Environment()
    maps = source(env, schema="m map<string,long>")
    refused(lambda: maps.key_by("m"), "key_by() after operator 'in'")
    refused(lambda: stream().key_by(lambda row: row, "map<string,long>"), "key_by()", "'in'")
    refused(lambda: stream().key_by(lambda row: row, "nonsense"), "key_by()", "'nonsense'")


def test_a_key_function_needs_a_type() -> None:
    refused(lambda: stream().key_by(lambda row: row.k), "needs the type", '"string"')
    refused(lambda: stream().key_by(lambda: 1, "long"), "key_by", "cannot be called with 1")


def test_a_key_of_columns_is_no_operator_and_has_no_uid() -> None:
    refused(lambda: stream().key_by("k", uid="by-k"), "'by-k'", "Leave uid out")


def test_a_broadcast_stream_has_no_key() -> None:
    refused(lambda: stream().broadcast().key_by("k"), "'in'", "broadcast")


@pytest.mark.parametrize("method", ["map", "flat_map", "map_batches"])
def test_a_schema_that_cannot_be_read_is_named_with_its_operator(method: str) -> None:
    add = getattr(stream(), method)
    refused(lambda: add(lambda row: row, "a bogus", uid="m"), f"operator 'm' ({method})", "'bogus'")
    refused(lambda: add(lambda row: row, 7), f"{method}() after operator 'in'", "7 is not a schema")


def test_a_schema_that_cannot_be_read_is_named_with_its_process() -> None:
    refused(lambda: stream().process(Plain(), "", uid="p"), "operator 'p' (process)", "empty")
    refused(lambda: keyed().process(Keyed(), "", uid="p"), "operator 'p' (process)", "empty")


# ---------------------------------------------------------------- uids and ends


def test_a_uid_belongs_to_one_operator() -> None:
    refused(lambda: stream().filter(bool, uid="in"), "uid 'in' of operator filter", "(source)")


def test_a_uid_that_was_made_up_never_takes_one_that_was_given() -> None:
    added = stream().filter(bool, uid="filter-1").filter(bool).filter(bool)
    assert added._where() == "operator 'filter-3'"
    refused(lambda: added.map(bool, "b boolean", uid="filter-2"), "'filter-2'", "(filter)")


@pytest.mark.parametrize("uid", ["", "  ", 7, b"x"])
def test_a_uid_is_a_text_that_is_not_empty(uid: Any) -> None:
    refused(lambda: stream().filter(bool, uid=uid), f"uid={uid!r}", "filter", "not empty")


def test_a_stream_must_end_in_a_sink() -> None:
    env = ms.Environment()
    first = source(env)
    first.filter(bool, uid="dangling")
    first.sink(Memory(), uid="out")
    refused(env.plan, "operator 'dangling' (filter)", ".sink(...)")


def test_a_key_function_that_nobody_uses_is_a_dangling_stream() -> None:
    env = ms.Environment()
    source(env).key_by(lambda row: row.k, "string", uid="lonely")
    refused(env.plan, "'lonely'", ".sink(...)")


def test_state_without_a_uid_is_a_warning_that_points_at_the_program() -> None:
    env = ms.Environment()
    env.source(rows(SCHEMA, [])).filter(bool).sink(Memory(), uid="out")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.plan()
    assert [str(warning.message).partition(" has")[0] for warning in caught] == [
        "operator 'source-1'"
    ]
    assert caught[0].filename == __file__


# ---------------------------------------------------------------- several streams


def test_a_union_needs_equal_schemas() -> None:
    env = ms.Environment()
    other = source(env, "other", "k string, n int")
    refused(
        lambda: source(env).union(other),
        *("'in'", "'k string, n long'", "'other'", "'k string, n int'", "map(...)"),
    )


def test_a_union_of_keyed_streams_is_refused_on_either_side() -> None:
    env = ms.Environment()
    left, right = source(env, "left"), source(env, "right")
    refused(lambda: left.key_by("k").union(right), "'left'", "key_by(...) after union()")
    refused(lambda: left.union(right.key_by("k")), "'right'", "key_by(...) after union()")


@pytest.mark.parametrize("method", ["union", "connect"])
def test_streams_of_two_environments_do_not_meet(method: str) -> None:
    left, right = source(ms.Environment(), "left"), source(ms.Environment(), "right")
    refused(lambda: getattr(left, method)(right), method, "'left'", "'right'", "two environments")


@pytest.mark.parametrize("method", ["union", "connect"])
def test_what_is_joined_must_be_a_stream(method: str) -> None:
    refused(lambda: getattr(stream(), method)([1]), method, "needs a stream, not list")


def test_a_keyed_stream_is_neither_keyed_again_nor_dealt_out_otherwise() -> None:
    refused(lambda: keyed().key_by("n"), "'in'", "twice")
    refused(lambda: keyed().rebalance(), "'in'", "rebalance()", "undo")
    refused(lambda: keyed().broadcast(), "'in'", "broadcast()", "undo")


def test_connected_streams_are_keyed_alike_or_the_right_one_is_broadcast() -> None:
    env = ms.Environment()
    left, right = source(env, "left"), source(env, "right")
    refused(lambda: left.key_by("k").connect(right), "'right'", "broadcast")
    refused(lambda: left.connect(right.key_by("k")), "'right'", "left")
    refused(
        lambda: left.key_by("k").connect(right.key_by("n")),
        *("'left'", "string", "'right'", "long"),
    )
    refused(lambda: left.key_by("k").connect(right.key_by("k", "n")), "'left'", "'right'")


def test_keys_of_columns_with_other_names_are_alike() -> None:
    env = ms.Environment()
    left, right = source(env, "left"), source(env, "right", "a string, b long")
    connected = left.key_by("k", "n").connect(right.key_by("a", "b"))
    connected.process(Both(), SCHEMA, uid="both").sink(Memory(), uid="out")
    env.plan()


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


# ---------------------------------------------------------------- parallelism


@pytest.mark.parametrize("parallelism", [0, -1, "2", 1.0, True])
def test_the_parallelism_of_an_operator_is_a_whole_number(parallelism: Any) -> None:
    refused(
        lambda: stream().filter(bool, uid="f", parallelism=parallelism),
        *("operator 'f' (filter)", f"parallelism={parallelism!r}", "at least 1"),
    )


def test_no_operator_is_wider_than_the_key_groups() -> None:
    refused(
        lambda: stream().filter(bool, uid="f", parallelism=9),
        *("operator 'f' (filter)", "parallelism=9", "max_parallelism=8"),
    )
    by_function = stream().key_by(lambda row: row.n, "long")
    refused(lambda: by_function.filter(bool, uid="f", parallelism=9), "operator 'f' (filter)")
    env = ms.Environment(parallelism=9, max_parallelism=8)
    refused(lambda: source(env), "operator 'in' (source)", "parallelism=9")


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


# ---------------------------------------------------------------- where a job runs


@pytest.mark.parametrize("typo", ["embeded", "Embedded", "embed"])
def test_a_misspelt_embedded_is_refused_with_what_was_meant(typo: str) -> None:
    with pytest.raises(GraphError) as caught:
        ms.Environment(spark=typo)
    assert f"spark={typo!r} must be 'embedded', a SparkSession or None" in str(caught.value)
    assert "Did you mean spark='embedded'?" in str(caught.value)


@pytest.mark.parametrize("value", ["local[2]", 4, object()])
def test_what_is_no_session_is_refused_before_anything_is_started(value: object) -> None:
    with pytest.raises(GraphError, match="'embedded', a SparkSession or None"):
        ms.Environment(spark=value)
