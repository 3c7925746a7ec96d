"""A halt that waits too long for rows in line: its markers overtake them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.errors import SavepointError
from mainstay.runtime.messages import Overtake
from mainstay.runtime.options import SnapshotOptions
from mainstay.runtime.own_states import INCOMING
from mainstay.runtime.worker.channel_state import encoded_rows
from tests.unit.runtime.coordinator.conftest import Leader, plan
from tests.unit.runtime.coordinator.test_halting import last_trigger, stop
from tests.unit.runtime.coordinator.test_savepoints import Answer, settle

Lead = Callable[..., Any]

PATIENCE_S = SnapshotOptions().halt_alignment_s
IN_FLIGHT = encoded_rows({INCOMING.name: [("an edge", b"rows")]})


def overtaken(leader: Any) -> set[int]:
    return {message.epoch for message in leader.world.sent(Overtake)}


def test_after_a_few_seconds_the_markers_of_the_last_epoch_overtake_rows(lead: Lead) -> None:
    leader = lead().run()
    stop(leader)
    leader.pass_time(PATIENCE_S - 0.1)
    assert overtaken(leader) == set()
    leader.pass_time(0.1)
    epoch = last_trigger(leader).epoch
    assert overtaken(leader) == {epoch}
    leader.acknowledge(epoch, files=())
    settle(leader)
    leader.confirm(epoch)
    assert leader.status == "stopped"
    assert leader.coordinator.records[-1].is_unaligned


def test_an_alignment_timeout_that_is_shorter_counts_for_a_halt(lead: Lead) -> None:
    leader = lead(alignment_timeout_s=1.0).run()
    stop(leader)
    leader.pass_time(1.0)
    assert overtaken(leader) == {last_trigger(leader).epoch}


def test_an_ordinary_epoch_under_way_does_not_hold_a_stop_up(lead: Lead) -> None:
    leader = lead().run()
    early = leader.trigger()
    stop(leader)
    assert last_trigger(leader).epoch == early
    leader.pass_time(PATIENCE_S)
    assert overtaken(leader) == {early}
    leader.acknowledge(early, files=())
    settle(leader)
    leader.pass_time(0.0)
    last = last_trigger(leader)
    assert last.is_last
    assert overtaken(leader) == {early, last.epoch}, "whoever stops has waited long enough"


def test_the_next_last_epoch_after_one_that_failed_overtakes_at_once(lead: Lead) -> None:
    leader = lead().run()
    stop(leader)
    leader.pass_time(PATIENCE_S)
    first = last_trigger(leader).epoch
    leader.decline(first)
    leader.pass_time(2.0)
    second = last_trigger(leader)
    assert second.is_last
    assert overtaken(leader) == {first, second.epoch}


@pytest.mark.parametrize(("path", "drain"), [("there", False), (None, True), ("there", True)])
def test_a_savepoint_or_a_drain_waits_for_every_row(
    lead: Lead, path: str | None, drain: bool
) -> None:
    leader = lead().run()
    leader.trigger()
    stop(leader, path, drain=drain)
    leader.pass_time(4 * PATIENCE_S)
    assert overtaken(leader) == set()


def test_a_savepoint_that_was_asked_for_before_is_waited_for(lead: Lead) -> None:
    leader = lead().run()
    leader.coordinator.savepoint("there", Answer())
    settle(leader)
    leader.pass_time(0.0)
    stop(leader)
    leader.pass_time(4 * PATIENCE_S)
    assert overtaken(leader) == set()


def test_at_least_once_nothing_overtakes(world: Any) -> None:
    leader = Leader(world, "A", plan(mode="at_least_once")).run()
    stop(leader)
    leader.pass_time(4 * PATIENCE_S)
    assert overtaken(leader) == set()


def test_a_savepoint_that_comes_too_late_is_not_made_of_in_flight_rows(lead: Lead) -> None:
    leader = lead().run()
    answer = stop(leader)
    leader.pass_time(PATIENCE_S)
    late = Answer()
    leader.coordinator.savepoint("there", late)
    settle(leader)
    epoch = last_trigger(leader).epoch
    leader.acknowledge(epoch, files=(), units=IN_FLIGHT)
    settle(leader)
    assert isinstance(late.error, SavepointError)
    assert "holds in-flight rows" in str(late.error)
    assert "Start the job again" in str(late.error)
    leader.confirm(epoch)
    settle(leader)
    assert leader.status == "stopped"
    assert answer.told == [None]
