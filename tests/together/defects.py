"""Bugs to plant in the product itself, in the drivers of a run: each breaks what it promises."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mainstay.runtime.coordinator import loading, starting
from mainstay.snapshot.history import EpochCommitted
from tests.simulation.planting import planting

DEFECTS, defect = planting()


@defect
def a_restart_goes_back_to_the_epoch_before_the_last() -> Iterator[None]:
    right = loading._newest

    def older(lineage: tuple[EpochCommitted, ...], damaged: Collection[int]) -> Any:
        return right(lineage[:-1] or lineage, damaged)

    with patch.object(loading, "_newest", older):
        yield


@defect
def a_restart_leaves_out_the_newest_changes_of_a_state() -> Iterator[None]:
    right = starting.plan_restore

    def cut(*given: Any, **named: Any) -> Any:
        plan = right(*given, **named)
        states = {of: replace(state, chain=state.chain[:-1]) for of, state in plan.states.items()}
        return replace(plan, states=states)

    with patch.object(starting, "plan_restore", cut):
        yield
