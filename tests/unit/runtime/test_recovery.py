from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.errors import RestoreError
from mainstay.runtime.recovery import RestorePlan, key_type_of, plan_restore, schema_of
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.manifest import (
    FileRef,
    Manifest,
    OperatorState,
    OperatorUnits,
    SegmentRef,
    StateSchema,
    SubtaskState,
)
from mainstay.state.keygroups import HASH_ID
from mainstay.state.operator import decode_units, encode_units
from mainstay.state.values import ValueType


class Count(ms.KeyedProcess):
    total = ms.ValueState("long")
    seen = ms.MapState("string", "long")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


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


class Dealt(ms.Process):
    seen = ms.OperatorListState("string", redistribute="split")

    def process(self, row: Any, ctx: Any) -> Any:
        return None


class United(Dealt):
    seen = ms.OperatorListState("string", redistribute="union")


class Copied(Dealt):
    seen = ms.OperatorListState("string", redistribute="broadcast")


class Extended(Count):
    extra = ms.ListState("string")


class Widened(Count):
    total = ms.ReducingState("long", lambda a, b: a + b, ttl="1 day")


class Dealt32(Dealt):
    seen = ms.OperatorListState("int", redistribute="split")


class Dealt64(Dealt):
    seen = ms.OperatorListState("long", redistribute="split")


class DealtTexts(Dealt):
    seen = ms.OperatorListState(
        "string", redistribute="split", migrate=lambda old: str(old) if old > 1 else None
    )


def job(
    function: Any = None,
    *,
    parallelism: int = 2,
    uid: str = "count",
    key: str = "k",
    max_parallelism: int = 128,
    extra_map: bool = False,
) -> JobSpec:
    env = ms.Environment(parallelism=parallelism, max_parallelism=max_parallelism)
    stream = env.source(Rows("k string, n long", []), uid="rows")
    if extra_map:
        stream = stream.rebalance().map(lambda row: row, "k string, n long", uid="extra")
    counted = stream.key_by(key).process(function or Count(), "k string", uid=uid)
    counted.sink(Memory(), uid="out")
    return env.plan()


def aggregating(**aggregates: Any) -> JobSpec:
    env = ms.Environment(parallelism=2)
    rows = env.source(Rows("k string, n long", []), uid="rows")
    rows.key_by("k").aggregate(uid="count", **aggregates).sink(Memory(), uid="out")
    return env.plan()


def listing(function: ms.Process) -> JobSpec:
    """A job with a list per subtask."""
    env = ms.Environment(parallelism=2)
    rows = env.source(Rows("k string, n long", []), uid="rows")
    rows.process(function, "k string", uid="list").sink(Memory(), uid="out")
    return env.plan()


def segment(name: str, first: int, last: int, *, is_base: bool = False) -> SegmentRef:
    return SegmentRef(name, FileRef(f"state/{name}", 10, "crc32:0"), first, last, 5, is_base)


def units_of(*values: str, mode: str = "split") -> OperatorUnits:
    column = ValueType.of("string").to_array(list(values))
    return OperatorUnits(mode, len(values), encode_units(column))


def manifest(spec: JobSpec, chains: list[tuple[SegmentRef, ...]] | None = None) -> Manifest:
    """What the job would have written, with two splits being read and state in two segments."""
    if chains is None:
        chains = [(segment("a", 0, 63),), (segment("b", 64, 127),)]
    operators = {}
    for task, operator in spec.operators():
        subtasks = [SubtaskState(number) for number in range(task.parallelism)]
        if operator.key is not None:
            subtasks = [SubtaskState(n, chain) for n, chain in enumerate(chains)]
        if operator.source is not None:
            subtasks = [
                SubtaskState(n, units={"splits": units_of(f"split-{n}")})
                for n in range(task.parallelism)
            ]
        operators[operator.uid] = OperatorState(
            operator.uid,
            len(subtasks),
            key_type_of(operator),
            tuple(schema_of(info) for info in operator.states),
            tuple(subtasks),
        )
    return Manifest(
        job="words",
        lineage="l1",
        epoch=7,
        attempt=3,
        mode=spec.mode,
        max_parallelism=spec.max_parallelism,
        hash_id=HASH_ID,
        created_at=1.0,
        operators=operators,
        sources={},
    )


def plan(stored: Manifest, spec: JobSpec, *allowed: str, rewrite: bool = False) -> RestorePlan:
    return plan_restore(stored, spec, frozenset(allowed), rewrite=rewrite)


MATCHED = (
    "matched state 'count.total': value of long",
    "matched state 'count.seen': map of string to long",
)


def news(restored: RestorePlan) -> list[str]:
    """What is reported beyond what simply fits."""
    return [line for line in restored.report if not line.startswith("matched ")]


def chains(restored: RestorePlan, uid: str = "count") -> list[list[tuple[str, int, int]]]:
    count = len([key for key in restored.states if key[0] == uid])
    return [
        [(ref.id, ref.first_group, ref.last_group) for ref in restored.states[uid, n].chain]
        for n in range(count)
    ]


def splits(restored: RestorePlan, parallelism: int) -> list[list[str]]:
    return [
        decode_units(restored.states["rows", n].units["splits"].data).to_pylist()
        for n in range(parallelism)
    ]


# ---------------------------------------------------------------- what fits


def test_the_same_job_gets_back_what_it_stored_and_every_state_is_matched() -> None:
    restored = plan(manifest(job()), job())
    assert chains(restored) == [[("a", 0, 63)], [("b", 64, 127)]]
    assert splits(restored, 2) == [["split-0"], ["split-1"]]
    assert set(MATCHED) < set(restored.report)
    assert news(restored) == []
    assert all(state.stored_as is None for state in restored.states.values())
    assert not any(state.rewrite for state in restored.states.values())


def test_an_added_state_starts_empty_and_is_reported() -> None:
    restored = plan(manifest(job()), job(Extended()))
    assert news(restored) == ["added state 'count.extra': starts empty"]
    assert chains(restored) == [[("a", 0, 63)], [("b", 64, 127)]]


def test_an_added_operator_starts_empty_and_is_reported() -> None:
    restored = plan(manifest(job()), job(extra_map=True))
    assert news(restored) == ["added operator 'extra': starts empty"]
    assert ("extra", 0) not in restored.states


def test_an_operator_that_held_no_state_may_go_without_a_word() -> None:
    assert news(plan(manifest(job(extra_map=True)), job())) == []


def test_state_that_is_restored_from_elsewhere_is_rewritten() -> None:
    restored = plan(manifest(job()), job(), rewrite=True)
    assert all(state.rewrite for state in restored.states.values())


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


def dealt(*values: int) -> Manifest:
    stored = manifest(listing(Dealt32()))
    column = ValueType.of("int").to_array(list(values))
    units = OperatorUnits("split", len(values), encode_units(column))
    held = replace(stored.operators["list"], subtasks=(SubtaskState(0, (), {"seen": units}),))
    return replace(stored, operators={**stored.operators, "list": held})


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


# ---------------------------------------------------------------- rescaling


def test_chains_are_clipped_to_the_ranges_of_more_subtasks() -> None:
    restored = plan(manifest(job()), job(parallelism=4))
    assert "rescaled operator 'count' from 2 to 4 subtasks" in restored.report
    assert chains(restored) == [
        [("a", 0, 31)],
        [("a", 32, 63)],
        [("b", 64, 95)],
        [("b", 96, 127)],
    ]


def test_fewer_subtasks_get_the_chains_of_several_in_order() -> None:
    stored = [
        (segment("base-a", 0, 63, is_base=True), segment("a", 0, 63)),
        (segment("b", 64, 127),),
    ]
    restored = plan(manifest(job(), stored), job(parallelism=1))
    assert chains(restored) == [[("base-a", 0, 63), ("a", 0, 63), ("b", 64, 127)]]
    assert [ref.is_base for ref in restored.states["count", 0].chain] == [True, False, False]


def test_going_to_three_subtasks_and_back_applies_no_group_twice_and_loses_none() -> None:
    three = job(parallelism=3)
    first = plan(manifest(job()), three)
    stored = manifest(three, [first.states["count", n].chain for n in range(3)])
    back = plan(stored, job())
    assert chains(back) == [
        [("a", 0, 42), ("a", 43, 63)],
        [("b", 64, 85), ("b", 86, 127)],
    ]


def test_operator_state_is_dealt_out_over_the_new_subtasks() -> None:
    stored = manifest(job())
    assert splits(plan(stored, job(parallelism=1)), 1) == [["split-0", "split-1"]]
    dealt = splits(plan(stored, job(parallelism=3)), 3)
    assert sorted(unit for share in dealt for unit in share) == ["split-0", "split-1"]
    assert max(len(share) for share in dealt) == 1


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
        "epoch 7 was written with max_parallelism=128, the job asks for 256. Keys are bound to "
        "their key-groups for the life of the state: set max_parallelism=128, or rewrite the state "
        "with mainstay.spark.rebucket(spark, source, target, max_parallelism=256) and start from "
        "the target."
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
