"""Mistakes in streams are found when the program is written, and named."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError
from mainstay.testing import rows
from tests.unit.api.mistakes import SCHEMA, Both, Keyed, Plain, keyed, refused, source, stream

# ---------------------------------------------------------------- columns and schemas


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    refused(
        lambda: stream().key_by("nobody"), "key_by() after operator 'in'", "'nobody'", "'k', 'n'"
    )
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


# ---------------------------------------------------------------- where a job runs


@pytest.mark.parametrize("typo", ["embeded", "Embedded", "embed"])
def test_a_misspelt_embedded_is_refused_with_what_was_meant(typo: str) -> None:
    with pytest.raises(GraphError) as caught:
        ms.Environment(spark=typo)
    assert f"spark={typo!r} must be 'embedded', a SparkSession, the address" in str(caught.value)
    assert "Did you mean spark='embedded'?" in str(caught.value)


@pytest.mark.parametrize("master", ["spark://host:7077", "local[2]", "yarn", "k8s://host"])
def test_a_master_in_place_of_a_session_is_refused_with_where_it_belongs(master: str) -> None:
    with pytest.raises(GraphError, match="This is a master") as caught:
        ms.Environment(spark=master)
    assert f"mainstay run PROGRAM.py --master {master}," in str(caught.value)
    assert f"spark=SparkSession.builder.master({master!r}).getOrCreate()" in str(caught.value)


@pytest.mark.parametrize("value", ["local[2]", 4, object()])
def test_what_is_no_session_is_refused_before_anything_is_started(value: object) -> None:
    with pytest.raises(
        GraphError, match="'embedded', a SparkSession, the address of a Spark Connect server"
    ):
        ms.Environment(spark=value)
