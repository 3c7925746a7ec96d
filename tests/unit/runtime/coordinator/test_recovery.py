"""The restore plan: what of a snapshot goes to which subtask."""

import mainstay as ms
from mainstay.runtime.coordinator.recovery import RestorePlan
from mainstay.state.operator import decode_units
from tests.unit.runtime.coordinator.recovering import (
    Count,
    chains,
    job,
    manifest,
    news,
    plan,
    segment,
)


class Extended(Count):
    extra = ms.ListState("string")


MATCHED = (
    "matched state 'count.total': value of long",
    "matched state 'count.seen': map of string to long",
)


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
