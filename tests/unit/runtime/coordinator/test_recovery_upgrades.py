"""The restore plan of a program that was changed: upgrades and refusals."""

from dataclasses import replace
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import RestoreError
from mainstay.runtime.coordinator.recovery import RestorePlan
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.manifest import (
    Manifest,
    StateSchema,
)
from mainstay.state.keygroups import HASH_ID
from mainstay.state.operator import decode_units
from tests.unit.runtime.coordinator.recovering import (
    Count,
    Dealt,
    chains,
    dealt,
    job,
    listing,
    manifest,
    news,
    plan,
)


class Recount(ms.KeyedProcess):
    total = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Retyped(ms.KeyedProcess):
    total = ms.ValueState("string")
    seen = ms.MapState("string", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class Rekinded(ms.KeyedProcess):
    total = ms.ListState("long")
    seen = ms.MapState("string", "double")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class United(Dealt):
    seen = ms.OperatorListState("string", redistribute="union")


class Copied(Dealt):
    seen = ms.OperatorListState("string", redistribute="broadcast")


class Widened(Count):
    total = ms.ReducingState("long", lambda a, b: a + b, ttl="1 day")


class Dealt64(Dealt):
    seen = ms.OperatorListState("long", redistribute="split")


class DealtTexts(Dealt):
    seen = ms.OperatorListState(
        "string", redistribute="split", migrate=lambda old: str(old) if old > 1 else None
    )


def aggregating(**aggregates: Any) -> JobSpec:
    env = ms.Environment(parallelism=2)
    rows = env.source(Rows("k string, n long", []), uid="rows")
    rows.key_by("k").aggregate(uid="count", **aggregates).sink(Memory(), uid="out")
    return env.plan()


# ---------------------------------------------------------------- upgrades


def test_a_changed_state_is_read_with_what_was_stored_and_rewritten() -> None:
    stored = manifest(job())
    restored = plan(stored, job(Widened()))
    assert news(restored) == [
        "converted state 'count.total': value to reducing, ttl none to 86400 s"
    ]
    for subtask in range(2):
        state = restored.states["count", subtask]
        assert state.rewrite
        assert state.stored_as is not None
        assert state.stored_as.key_type == "string"
        assert state.stored_as.states == stored.operators["count"].states
    assert restored.states["rows", 0].stored_as is None


def migrating(parallelism: int = 2) -> JobSpec:
    env = ms.Environment(parallelism=parallelism)
    keyed = env.source(Rows("k string, n long", []), uid="rows").key_by("n", migrate_key=len)
    keyed.process(Count(), "k string", uid="count").sink(Memory(), uid="out")
    return env.plan()


def test_where_keys_are_migrated_everyone_reads_everything() -> None:
    restored = plan(manifest(job()), migrating(3))
    assert chains(restored) == [[("a", 0, 63), ("b", 64, 127)]] * 3
    assert "migrated the key of operator 'count': string to long" in restored.report
    assert all(restored.states["count", n].rewrite for n in range(3))


def test_keys_are_not_migrated_where_the_type_is_the_same() -> None:
    restored = plan(manifest(migrating()), migrating())
    assert news(restored) == []
    assert chains(restored) == [[("a", 0, 63)], [("b", 64, 127)]]


def found_units(restored: RestorePlan) -> list[Any]:
    held = [restored.states["list", n].units["seen"] for n in range(2)]
    assert [units.count for units in held] == [len(decode_units(u.data)) for u in held]
    return [unit for units in held for unit in decode_units(units.data).to_pylist()]


def test_operator_state_is_converted_and_migrated_too() -> None:
    widened = plan(dealt(1, 2, 3), listing(Dealt64()))
    assert found_units(widened) == [1, 2, 3]
    assert decode_units(widened.states["list", 0].units["seen"].data).type == "int64"
    assert not widened.states["list", 0].rewrite
    migrated = plan(dealt(1, 2, 3), listing(DealtTexts()))
    assert found_units(migrated) == ["2", "3"]
    assert "migrated state 'list.seen': int to string" in migrated.report


def test_another_aggregation_is_refused_with_both() -> None:
    stored = manifest(aggregating(total=ms.sum("n")))
    assert news(plan(stored, aggregating(total=ms.sum("n")))) == []
    with pytest.raises(
        RestoreError, match=r"operator 'count' had accumulated struct.* another uid"
    ):
        plan(stored, aggregating(total=ms.sum("n"), rows=ms.count()))


# ---------------------------------------------------------------- refusals


def test_another_key_hash_is_refused() -> None:
    stored = replace(manifest(job()), hash_id="older-9")
    with pytest.raises(RestoreError) as refused:
        plan(stored, job())
    assert str(refused.value) == (
        "epoch 7 was written with the key hash 'older-9', this version of Mainstay uses "
        f"{HASH_ID!r}. Restore it with the version that wrote it."
    )


def test_another_max_parallelism_is_refused_with_the_right_one() -> None:
    with pytest.raises(RestoreError) as refused:
        plan(manifest(job()), job(max_parallelism=256))
    assert str(refused.value) == (
        "operator 'count': epoch 7 was written with max_parallelism=128, the job asks for 256. "
        "Keys are bound to their key-groups for the life of the state: set max_parallelism=128, or "
        "rewrite the state with mainstay.spark.rebucket(spark, source, target, "
        "max_parallelism=256) and start from the target."
    )


def test_a_dropped_operator_with_state_is_refused_with_both_remedies() -> None:
    with pytest.raises(RestoreError) as refused:
        plan(manifest(job()), job(uid="renamed"))
    assert str(refused.value) == (
        "the job has no operator 'count', but the snapshot holds its state. Give the operator "
        "that should have it uid='count', or drop the state for good with "
        "allow_dropped=['count.total', 'count.seen']."
    )


def test_naming_only_some_states_of_a_dropped_operator_is_not_enough() -> None:
    with pytest.raises(RestoreError, match=r"allow_dropped=\['count.seen'\]"):
        plan(manifest(job()), job(uid="renamed"), "count.total")


def test_a_dropped_operator_goes_with_an_explicit_word() -> None:
    restored = plan(manifest(job()), job(uid="renamed"), "count.total", "count.seen")
    assert news(restored) == [
        "dropped operator 'count' with its states ['total', 'seen']",
        "added operator 'renamed': starts empty",
    ]
    assert ("count", 0) not in restored.states


def test_an_operator_with_operator_state_only_is_not_dropped_silently() -> None:
    stored = manifest(job())
    gone = replace(stored.operators["rows"], uid="gone")
    stored = replace(stored, operators={**stored.operators, "gone": gone})
    with pytest.raises(RestoreError, match=r"allow_dropped=\['gone.splits'\]"):
        plan(stored, job())


def test_a_dropped_state_is_refused_with_both_remedies() -> None:
    with pytest.raises(RestoreError) as refused:
        plan(manifest(job()), job(Recount()))
    assert str(refused.value) == (
        "state 'count.seen' is in the snapshot, but operator 'count' no longer declares it. "
        "Declare it again, or drop it for good with allow_dropped=['count.seen']."
    )


def test_a_dropped_state_goes_with_an_explicit_word_and_its_rows_are_written_no_more() -> None:
    restored = plan(manifest(job()), job(Recount()), "count.seen")
    assert news(restored) == ["dropped state 'count.seen'"]
    assert restored.states["count", 0].rewrite
    assert not restored.states["rows", 0].rewrite


def test_a_changed_type_is_refused_with_both_types() -> None:
    with pytest.raises(RestoreError) as refused:
        plan(manifest(job()), job(Retyped()))
    assert str(refused.value) == (
        "state 'count.total' was stored as value of long and is now declared as value of "
        "string (long to string). Declare it as before, convert its values with migrate=<a "
        "function of the old value>, or give it another name to start empty."
    )


def test_a_changed_kind_is_refused() -> None:
    with pytest.raises(RestoreError, match=r"stored as value of long and is now .* list of long"):
        plan(manifest(job()), job(Rekinded()))


def test_a_changed_type_of_a_map_names_keys_and_values() -> None:
    stored = manifest(job())
    count = stored.operators["count"]
    states = (count.states[0], StateSchema("seen", "map", "long", "int"))
    stored = replace(stored, operators={**stored.operators, "count": replace(count, states=states)})
    with pytest.raises(RestoreError, match=r"stored as map of int to long .* string to long"):
        plan(stored, job())


@pytest.mark.parametrize(
    ("before", "after", "was", "now"),
    [
        (Dealt, United, "split", "union"),
        (United, Dealt, "union", "split"),
        (Copied, United, "broadcast", "union"),
    ],
)
def test_another_way_of_redistribution_is_refused_with_both(
    before: type[ms.Process], after: type[ms.Process], was: str, now: str
) -> None:
    with pytest.raises(RestoreError) as refused:
        plan(manifest(listing(before())), listing(after()))
    assert str(refused.value) == (
        f"state 'list.seen' was stored as operator-list of string ({was}) and is now declared as "
        f"operator-list of string ({now}). Declare it as before, or give it another name to start "
        "empty."
    )


@pytest.mark.parametrize("function", [Dealt, United, Copied])
def test_the_way_of_redistribution_is_stored_and_fits_itself(function: type[ms.Process]) -> None:
    stored = Manifest.from_bytes(manifest(listing(function())).to_bytes())
    (seen,) = stored.operators["list"].states
    assert seen.redistribute == function.__dict__["seen"].redistribute
    assert news(plan(stored, listing(function()))) == []


def test_keyed_state_has_no_way_of_redistribution() -> None:
    stored = manifest(job())
    assert {state.redistribute for state in stored.operators["count"].states} == {None}
    assert {state.redistribute for state in stored.operators["rows"].states} == {"split"}


def test_a_changed_key_type_is_refused_with_both_types() -> None:
    with pytest.raises(RestoreError) as refused:
        plan(manifest(job()), job(key="n"))
    assert str(refused.value) == (
        "operator 'count' was keyed by string, and is now keyed by long. Key it by string as "
        "before, give key_by() migrate_key=<a function of it>, or give it another uid to start "
        "empty."
    )


def test_a_changed_key_type_does_not_matter_where_nothing_was_stored() -> None:
    restored = plan(manifest(job(), [(), ()]), job(key="n"))
    assert chains(restored) == [[], []]
