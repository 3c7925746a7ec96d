from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import GraphError, RestoreError
from mainstay.snapshot.statefile import StateTable
from mainstay.state.declaration import (
    ListState,
    MapState,
    OperatorListState,
    ReducingState,
    StateDeclaration,
    StateInfo,
    ValueState,
)
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.migration import Migration
from mainstay.state.operations import APPEND, DELETE, ENTRY_PUT, ENTRY_REMOVE, PUT
from mainstay.state.rekeying import KeyMigration, convert_keys, plan_keys
from mainstay.state.upgrade import StateUpgrade, plan_state, schema_of
from mainstay.state.values import ValueType

NAME = "totals.total"


def info(declaration: StateDeclaration) -> StateInfo:
    declaration.name = "total"
    return declaration.info()


def upgrade(before: StateDeclaration, after: StateDeclaration, *allowed: str) -> StateUpgrade:
    return plan_state(NAME, schema_of(info(before)), info(after), allowed)


def rows(**columns: pa.Array) -> StateTable:
    table = pa.table(columns)
    return StateTable("total", table, np.arange(table.num_rows, dtype=np.uint16))


def ops(*codes: int) -> pa.Array:
    return pa.array(codes, pa.int8())


# ---------------------------------------------------------------- plans


def test_a_state_that_is_declared_as_before_is_left_alone() -> None:
    found = upgrade(ValueState("long"), ValueState("long"))
    assert not found.is_needed
    assert found.line(NAME) == "matched state 'totals.total': value of long"
    given = rows(key=pa.array(["a"]), op=ops(PUT), value=pa.array([1]))
    assert found.rows(given, 0) is given


def test_a_widened_type_is_converted_and_says_so() -> None:
    found = upgrade(MapState("int", "float"), MapState("long", "double"))
    assert found.line(NAME) == (
        "converted state 'totals.total': float to double, map key: int to long"
    )


def test_values_reductions_and_aggregations_of_one_type_are_interchangeable() -> None:
    found = upgrade(ValueState("long"), ReducingState("long", operator.add))
    assert found.line(NAME) == "converted state 'totals.total': value to reducing"


def test_a_time_to_live_that_changes_is_reported() -> None:
    found = upgrade(ValueState("long"), ValueState("long", ttl="1 min"))
    assert found.line(NAME) == "converted state 'totals.total': ttl none to 60 s"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ValueState("long"), ListState("long")),
        (ListState("long"), MapState("long", "long")),
        (ListState("long"), OperatorListState("long")),
    ],
)
def test_another_kind_is_refused_whatever_the_types(
    before: StateDeclaration, after: StateDeclaration
) -> None:
    with pytest.raises(RestoreError, match=r"Declare it as before, or give it another name"):
        upgrade(before, after)


def test_a_type_that_does_not_fit_is_refused_with_the_field_and_the_remedies() -> None:
    with pytest.raises(RestoreError) as refused:
        upgrade(ValueState("struct<a:int,b:int>"), ValueState("struct<a:int,b:string>"))
    assert str(refused.value) == (
        "state 'totals.total' was stored as value of struct<a:int,b:int> and is now declared as "
        "value of struct<a:int,b:string> (b: int to string). Declare it as before, convert its "
        "values with migrate=<a function of the old value>, or give it another name to start empty."
    )


def test_a_map_key_that_does_not_fit_cannot_be_migrated() -> None:
    with pytest.raises(RestoreError, match=r"\(long to string\)\. Declare it as before, or give"):
        upgrade(MapState("long", "long"), MapState("string", "long", migrate=str))


def test_a_dropped_field_needs_a_word_with_its_full_name() -> None:
    before, after = ListState("struct<a:int,b:int>"), ListState("struct<b:int>")
    with pytest.raises(RestoreError, match=r"allow_dropped=\['totals\.total\.a'\]"):
        upgrade(before, after)
    found = upgrade(before, after, "totals.total.a")
    assert found.line(NAME) == "converted state 'totals.total': dropped field a"


def test_pickled_values_have_no_type_to_convert_from_or_to() -> None:
    with pytest.raises(RestoreError, match=r"pickle to long, and what is pickled has no type"):
        upgrade(ValueState(), ValueState("long"))
    assert upgrade(ValueState(), ValueState("long", migrate=int)).is_migrated


# ---------------------------------------------------------------- migrations


def test_a_function_is_used_only_where_nothing_converts_by_itself() -> None:
    assert upgrade(ValueState("string"), ValueState("long", migrate=int)).is_migrated
    assert not upgrade(ValueState("int"), ValueState("long", migrate=int)).is_migrated
    assert not upgrade(ValueState("long"), ValueState("long", migrate=int)).is_needed


def test_a_migration_from_a_type_is_used_for_that_type_and_no_other() -> None:
    after = ValueState("long", migrate=Migration(int, from_type="int"))
    assert upgrade(ValueState("int"), after).is_migrated
    assert not upgrade(ValueState("short"), after).is_migrated
    with pytest.raises(RestoreError, match=r"string to long"):
        upgrade(ValueState("string"), after)


def test_a_migration_from_the_declared_type_is_refused_at_once() -> None:
    with pytest.raises(GraphError, match=r"from long to the same type .* at every restore"):
        ValueState("long", migrate=Migration(abs, from_type="bigint"))


def test_what_is_no_function_is_no_migration() -> None:
    with pytest.raises(GraphError, match=r"migrate='int' must be a function"):
        ValueState("long", migrate="int")  # type: ignore[arg-type]


def test_values_are_migrated_and_none_drops_them() -> None:
    found = upgrade(
        ValueState("string"), ValueState("long", migrate=lambda old: int(old) if old else None)
    )
    given = rows(
        key=pa.array(["a", "b", "c"]), op=ops(PUT, PUT, DELETE), value=pa.array(["7", "", None])
    )
    table = found.rows(given, 0).table
    assert table.column("op").to_pylist() == [PUT, DELETE, DELETE]
    assert table.column("value").to_pylist() == [7, None, None]
    assert found.line(NAME) == "migrated state 'totals.total': string to long"


def test_the_function_is_given_what_get_would_have_given() -> None:
    seen = []

    def migrate(old: Any) -> str:
        seen.append(old)
        old.tags.append("mine to change")
        return f"{old.n}"

    found = upgrade(
        ValueState("struct<n:int,tags:array<string>>"), ValueState("string", migrate=migrate)
    )
    stored = ValueType.of("struct<n:int,tags:array<string>>").arrow
    given = rows(
        key=pa.array(["a"]), op=ops(PUT), value=pa.array([{"n": 1, "tags": ["x"]}], stored)
    )
    assert found.rows(given, 0).table.column("value").to_pylist() == ["1"]
    assert seen[0].n == 1


def test_elements_of_lists_are_migrated_one_by_one() -> None:
    def migrate(old: str) -> int | None:
        return None if old == "-" else int(old)

    found = upgrade(ListState("string"), ListState("long", migrate=migrate))
    given = rows(
        key=pa.array(["a", "b", "c", "d"]),
        op=ops(PUT, APPEND, PUT, DELETE),
        value=pa.array([["1", "-", "2"], ["-"], ["-"], None], pa.list_(pa.string())),
    )
    changed = found.rows(given, 0)
    # An append of nothing is gone; a put of nothing deletes.
    assert changed.table.column("key").to_pylist() == ["a", "c", "d"]
    assert changed.table.column("op").to_pylist() == [PUT, DELETE, DELETE]
    assert changed.table.column("value").to_pylist()[0] == [1, 2]
    assert changed.groups.tolist() == [0, 2, 3]


def test_entries_of_maps_are_migrated_and_a_stored_none_stays() -> None:
    found = upgrade(
        MapState("int", "string"),
        MapState("long", "long", migrate=lambda old: int(old) if old else None),
    )
    given = rows(
        key=pa.array(["a"] * 4),
        op=ops(ENTRY_PUT, ENTRY_PUT, ENTRY_PUT, ENTRY_REMOVE),
        map_key=pa.array([1, 2, 3, 4], pa.int32()),
        value=pa.array(["7", "", None, None]),
    )
    table = found.rows(given, 0).table
    assert table.column("op").to_pylist() == [ENTRY_PUT, ENTRY_REMOVE, ENTRY_PUT, ENTRY_REMOVE]
    assert table.column("value").to_pylist() == [7, None, None, None]
    assert table.schema.field("map_key").type == pa.int64()


def test_a_function_that_fails_is_named_with_the_value() -> None:
    found = upgrade(ValueState("string"), ValueState("long", migrate=int))
    given = rows(key=pa.array(["a"]), op=ops(PUT), value=pa.array(["seven"]))
    with pytest.raises(
        RestoreError, match=r"state 'totals.total': the migration of 'seven' failed: Val"
    ):
        found.rows(given, 0)


def test_a_function_that_exits_is_named_like_one_that_fails() -> None:
    def leaving(old: str) -> int:
        raise SystemExit("gone")

    found = upgrade(ValueState("string"), ValueState("long", migrate=leaving))
    given = rows(key=pa.array(["a"]), op=ops(PUT), value=pa.array(["seven"]))
    with pytest.raises(RestoreError, match=r"(?s)'seven' failed: SystemExit: gone.*in leaving"):
        found.rows(given, 0)


def test_a_function_that_gives_something_else_is_named_too() -> None:
    found = upgrade(ValueState("string"), ValueState("long", migrate=lambda old: old))
    given = rows(key=pa.array(["a"]), op=ops(PUT), value=pa.array(["7"]))
    with pytest.raises(RestoreError, match=r"does not fit the declared type long"):
        found.rows(given, 0)


# ---------------------------------------------------------------- keys


def test_keys_widen_without_leaving_their_groups() -> None:
    assert plan_keys("totals", "int", ValueType.of("long"), has_function=False) == "converted"
    given = rows(key=pa.array([1, 2], pa.int32()), op=ops(PUT, PUT), value=pa.array([1, 2]))
    changed = convert_keys(given, ValueType.of("long"))
    assert changed.table.schema.field("key").type == pa.int64()
    assert changed.groups.tolist() == given.groups.tolist()


def test_keys_of_another_type_need_a_function() -> None:
    with pytest.raises(RestoreError) as refused:
        plan_keys("totals", "long", ValueType.of("string"), has_function=False)
    assert str(refused.value) == (
        "operator 'totals' was keyed by long, and is now keyed by string. Key it by long as "
        "before, give key_by() migrate_key=<a function of it>, or give it another uid to start "
        "empty."
    )
    assert plan_keys("totals", "long", ValueType.of("string"), has_function=True) == "migrated"


def migration(function: Any, groups: KeyGroupRange) -> KeyMigration:
    return KeyMigration(
        "totals", ValueType.of("long"), ValueType.of("string"), function, groups, 128
    )


def test_a_migrated_key_is_kept_by_the_subtask_that_owns_it_and_by_no_other() -> None:
    given = rows(key=pa.array(range(100)), op=ops(*[PUT] * 100), value=pa.array(range(100)))
    found: dict[str, int] = {}
    for groups in (KeyGroupRange(0, 63), KeyGroupRange(64, 127)):
        changed = migration(lambda old: f"k{old}", groups).rows(given)
        keys = changed.table.column("key")
        assert changed.groups.tolist() == key_groups([keys.combine_chunks()], 128).tolist()
        assert all(group in groups for group in changed.groups)
        found.update(zip(keys.to_pylist(), changed.table.column("value").to_pylist(), strict=True))
    assert found == {f"k{n}": n for n in range(100)}


def test_two_keys_that_become_one_are_both_named_even_in_different_tables() -> None:
    joined = migration(lambda old: f"k{old % 10}", KeyGroupRange(0, 127))
    joined.rows(rows(key=pa.array([1, 1]), op=ops(PUT, PUT), value=pa.array([1, 1])))
    with pytest.raises(RestoreError, match=r"the keys 1 and 11 both become 'k1'"):
        joined.rows(rows(key=pa.array([11]), op=ops(PUT), value=pa.array([1])))


@pytest.mark.parametrize("function", [lambda old: None, lambda old: 7, lambda old: 1 / 0])
def test_a_function_of_a_key_that_fails_is_named_with_the_key(function: Any) -> None:
    with pytest.raises(RestoreError, match=r"operator 'totals': the migration of the key 5 failed"):
        migration(function, KeyGroupRange(0, 127)).rows(
            rows(key=pa.array([5]), op=ops(PUT), value=pa.array([1]))
        )


def test_a_null_key_stays_null() -> None:
    given = rows(key=pa.array([None], pa.int64()), op=ops(PUT), value=pa.array([1]))
    changed = migration(lambda old: 1 / 0, KeyGroupRange(0, 127)).rows(given)
    assert changed.table.column("key").to_pylist() == [None]
