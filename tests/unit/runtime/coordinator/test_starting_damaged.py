"""Starting a job whose storage is damaged or holds leftovers, and cancelling it."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.errors import (
    DamagedFileError,
    JobFailedError,
    RestoreError,
)
from mainstay.runtime.coordinator.loading import choose_first
from mainstay.runtime.messages import Attempt, Release, WorkerFailed
from mainstay.runtime.options import RestoreOptions
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.layout import log_slot, manifest_path, segment_path
from tests.unit.runtime.coordinator.starting import Lead, with_history


def damage(world: Any, path: str) -> None:
    world.storage._files[path] = b"garbage"


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize("kind", ["altered", "missing"])
def test_a_damaged_manifest_is_an_error(lead: Lead, world: Any, kind: str) -> None:
    with_history(lead)
    path = manifest_path(2, 1)
    if kind == "altered":
        damage(world, path)
    else:
        world.storage.delete(path)
    leader = lead("B", restore="latest").start()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, DamagedFileError)
    assert path in str(leader.coordinator.error)
    assert leader.events("launch", "create") == []


def test_a_damaged_manifest_falls_back_to_the_epoch_before_where_that_is_allowed(
    lead: Lead, world: Any
) -> None:
    with_history(lead, 3)
    damage(world, manifest_path(3, 1))
    damage(world, manifest_path(2, 1))
    leader = lead("B", restore="latest", fall_back=True).run()
    assert leader.coordinator.attempts[-1].restored_from == 1
    assert leader.complete() == 4
    assert leader.epochs() == [1, 4]


def test_falling_back_ends_where_no_epoch_is_whole(lead: Lead, world: Any) -> None:
    with_history(lead)
    damage(world, manifest_path(1, 1))
    damage(world, manifest_path(2, 1))
    leader = lead("B", restore="latest", fall_back=True).start()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, RestoreError)
    assert leader.events("launch", "create") == []


def test_falling_back_from_an_epoch_by_number_goes_to_an_older_one(lead: Lead, world: Any) -> None:
    with_history(lead, 3)
    damage(world, manifest_path(2, 1))
    leader = lead("B", restore=2, fall_back=True).start()
    assert leader.coordinator.attempts[-1].restored_from == 1


def test_falling_back_from_an_epoch_by_number_stays_on_its_own_lineage(
    lead: Lead, world: Any
) -> None:
    with_history(lead, 3)
    lead("B", restore=1).run().complete()
    history = read_history(world.storage)
    assert [record.epoch for record in history.lineage_epochs()] == [1, 4]
    assert [record.epoch for record in history.lineage_epochs(3)] == [1, 2, 3]
    chosen = choose_first(history, RestoreOptions(start=3), {3}, world.storage)
    assert chosen is not None
    assert chosen.epoch == 2


def test_a_damaged_log_is_an_error_whatever_is_allowed(lead: Lead, world: Any) -> None:
    with_history(lead)
    newest = log_slot(read_history(world.storage).next_slot - 1)
    damage(world, newest)
    leader = lead("B", restore="latest", fall_back=True).start()
    assert leader.status == "failed"
    assert newest in str(leader.coordinator.error)


def test_a_damaged_state_file_is_an_error_of_the_job(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B", restore="latest").start()
    error = DamagedFileError("state/x is damaged")
    fail_worker(leader, error)
    assert leader.status == "failed"
    assert leader.coordinator.error is error


def test_a_damaged_state_file_falls_back_to_the_epoch_before_where_that_is_allowed(
    lead: Lead,
) -> None:
    with_history(lead)
    leader = lead("B", restore="latest", fall_back=True).start()
    fail_worker(leader, DamagedFileError("state/x is damaged"))
    leader.restart()
    assert [record.restored_from for record in leader.coordinator.attempts] == [2, 1]


def fail_worker(leader: Any, error: Exception) -> None:
    leader.coordinator.receive(WorkerFailed(leader.attempt, 0, error))


# ---------------------------------------------------------------- what is left behind


def test_what_no_kept_epoch_reaches_is_swept_up_after_the_begin(lead: Lead, world: Any) -> None:
    with_history(lead)
    left = segment_path("totals", 0, 1, "left")
    world.storage._files[left] = b""
    world.storage._files[manifest_path(9, 1)] = b""
    leader = lead("B", restore="latest").start()
    kinds = [event[0] for event in leader.events("create", "delete")]
    assert kinds == ["create", "delete", "delete"]
    assert {event[1] for event in leader.events("delete")} == {left, manifest_path(9, 1)}
    kept = world.storage.list("epochs/") + world.storage.list("state/")
    assert manifest_path(1, 1) in kept
    assert segment_path("totals", 1, 1, "e2") in kept


def test_nothing_is_swept_up_before_the_begin_is_won(lead: Lead, world: Any) -> None:
    with_history(lead)
    world.storage._files[segment_path("totals", 0, 1, "left")] = b""
    leader = lead("B", restore="latest")
    world.storage.fail("create", "log/")
    leader.start()
    assert leader.status == "restarting"
    assert leader.events("delete") == []


def test_epochs_of_earlier_leaders_are_retired_by_later_ones(lead: Lead, world: Any) -> None:
    with_history(lead, 3)
    leader = lead("B", restore="latest", retain=3).run()
    leader.complete()
    assert world.storage.list("epochs/") == [
        manifest_path(2, 1),
        manifest_path(3, 1),
        manifest_path(4, 2),
    ]


def test_what_came_after_an_older_epoch_is_swept_up_when_that_is_restored(
    lead: Lead, world: Any
) -> None:
    """The epochs before it have been retired long ago: their manifests are not there to be read."""
    leader = lead("old", retain=2).run()
    for _ in range(5):
        leader.complete()
    assert world.storage.list("epochs/") == [manifest_path(4, 1), manifest_path(5, 1)]
    lead("B", restore=4, retain=2).start()
    assert world.storage.list("epochs/") == [manifest_path(4, 1)]
    kept = world.storage.list("state/")
    assert kept == [segment_path("totals", 0, 1, "e4"), segment_path("totals", 1, 1, "e4")]


def test_an_older_epoch_that_was_restored_is_retired_in_its_turn(lead: Lead, world: Any) -> None:
    leader = lead("old", retain=2).run()
    for _ in range(5):
        leader.complete()
    again = lead("B", restore=4, retain=2).run()
    again.complete()
    again.complete()
    assert world.storage.list("epochs/") == [manifest_path(6, 2), manifest_path(7, 2)]
    assert segment_path("totals", 0, 1, "e4") not in world.storage.list("state/")


def test_a_sweep_that_fails_does_not_disturb_the_job(lead: Lead, world: Any) -> None:
    with_history(lead)
    leader = lead("B", restore="latest")
    leader.coordinator.start()
    world.background.run_one()
    world.background.run_one()
    world.background.take().fail(OSError("cannot list"))
    assert leader.ready().complete() == 3


# ---------------------------------------------------------------- cancelling


def test_a_job_that_is_cancelled_releases_and_stops_its_workers(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.coordinator.cancel()
    assert leader.status == "cancelled"
    assert leader.coordinator.error is None
    assert leader.world.sent(Release) == [Release(Attempt(1), in_good_order=False)] * 2
    assert leader.events("stop") == [("stop", 1)]
    assert leader.coordinator.attempts[-1].reason == "cancelled"


def test_a_cancelled_job_can_go_on_from_its_latest_epoch(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.trigger()
    leader.coordinator.cancel()
    assert leader.outcomes() == [(1, "complete"), (2, "failed")]
    again = lead("B", restore="latest").start()
    assert again.coordinator.attempts[-1].restored_from == 1


@pytest.mark.parametrize("loaded", [False, True])
def test_a_job_that_is_cancelled_before_its_begin_launches_nothing(
    lead: Lead, loaded: bool
) -> None:
    leader = lead()
    leader.coordinator.start()
    if loaded:
        leader.world.background.run_one()
    leader.coordinator.cancel()
    leader.world.background.drain()
    assert leader.status == "cancelled"
    assert leader.events("launch") == []


def test_cancelling_during_the_wait_for_a_restart_ends_it(lead: Lead) -> None:
    leader = lead().run()
    leader.lose_worker()
    leader.coordinator.cancel()
    leader.pass_time(1000.0)
    leader.world.background.drain()
    assert leader.status == "cancelled"
    assert leader.events("launch") == [("launch", 1)]


def test_an_epoch_whose_slot_was_won_counts_although_the_job_was_cancelled(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    leader.world.background.run_one()
    leader.coordinator.cancel()
    leader.world.background.drain()
    assert leader.status == "cancelled"
    assert leader.epochs() == [1]
    assert leader.outcomes() == [(1, "complete")]


def test_an_error_that_is_not_ours_is_wrapped_with_its_cause(lead: Lead) -> None:
    leader = lead(max_failures=0)
    cause = OSError("the network is down")
    leader.coordinator.start()
    leader.world.background.take().fail(cause)
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, JobFailedError)
    assert leader.coordinator.error.__cause__ is cause
