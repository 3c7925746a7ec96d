"""What a leader starts from, and what it refuses to start from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.errors import (
    DamagedFileError,
    FencedError,
    HistoryExistsError,
    JobFailedError,
    RestoreError,
)
from mainstay.runtime.loading import choose_first
from mainstay.runtime.messages import AssignSplits, Attempt, Release, WorkerFailed
from mainstay.runtime.options import RestoreOptions
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.layout import log_slot, manifest_path, segment_path

Lead = Callable[..., Any]


def with_history(lead: Lead, epochs: int = 2) -> None:
    """A first leader completes some epochs and is gone."""
    leader = lead("old").run()
    for _ in range(epochs):
        leader.complete()
    leader.world.forget()


def damage(world: Any, path: str) -> None:
    world.storage._files[path] = b"garbage"


def chain_ids(leader: Any) -> list[str]:
    (deployment,) = leader.cluster.deployments
    return [ref.id for ref in deployment.restored["totals", 0].chain]


# ---------------------------------------------------------------- a fresh start


def test_a_fresh_job_begins_in_the_log_before_its_workers_are_launched(lead: Lead) -> None:
    leader = lead().start()
    assert leader.events("create", "launch") == [("create", log_slot(0)), ("launch", 1)]
    begin = read_history(leader.world.storage).last_begin
    assert begin is not None
    assert (begin.attempt, begin.leader, begin.restored_from) == (1, "A-1", None)
    assert (begin.job, begin.lineage) == ("words", "lineage-A-1")
    assert begin.next_epoch == 1
    assert leader.status == "launching"
    (record,) = leader.coordinator.attempts
    assert (record.attempt, record.restored_from, record.report) == (1, None, ())


def test_splits_are_planned_when_all_workers_are_ready_and_given_to_each(lead: Lead) -> None:
    leader = lead().start()
    assert leader.world.sent(AssignSplits) == []
    leader.ready()
    given = {m.subtask: [s.id for s in m.splits] for m in leader.world.sent(AssignSplits)}
    assert given == {0: ["rows-0-1"], 1: ["rows-1-2"]}
    assert all(message.last for message in leader.world.sent(AssignSplits))


def test_a_begin_of_unknown_outcome_is_asked_again(lead: Lead) -> None:
    leader = lead()
    leader.world.storage.fail("create", "log/", "unknown-done")
    leader.world.storage.fail("read", "log/")
    leader.start()
    assert leader.events("launch") == []
    leader.pass_time(1.0)
    leader.world.background.drain()
    assert leader.events("launch") == [("launch", 1)]
    assert read_history(leader.world.storage).next_slot == 1


def test_of_two_leaders_that_start_afresh_together_one_finds_a_history(lead: Lead) -> None:
    one, other = lead("A"), lead("B")
    one.coordinator.start()
    other.coordinator.start()
    one.world.background.drain()
    assert [one.status, other.status] == ["launching", "failed"]
    assert isinstance(other.coordinator.error, HistoryExistsError)
    assert other.events("launch") == [("launch", 1)]
    assert read_history(one.world.storage).next_slot == 1


def test_of_two_leaders_that_go_on_together_the_later_begin_fences_the_earlier(
    lead: Lead,
) -> None:
    with_history(lead)
    one, other = lead("A", restore="latest"), lead("B", restore="latest")
    one.coordinator.start()
    other.coordinator.start()
    one.world.background.drain()
    begin = read_history(one.world.storage).last_begin
    assert begin is not None
    assert (begin.leader, begin.attempt, begin.restored_from) == ("B-1", 3, 2)
    one.ready()
    one.complete()
    assert one.status == "failed"
    assert isinstance(one.coordinator.error, FencedError)
    assert other.ready().status == "running"


# ---------------------------------------------------------------- refusals


def test_a_fresh_start_where_there_is_a_history_is_refused_with_both_remedies(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B").start()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, HistoryExistsError)
    message = str(leader.coordinator.error)
    assert "the history of job 'words' (2 epochs)" in message
    assert 'restore="latest"' in message
    assert "another directory" in message
    assert leader.events("launch", "create") == []


def test_the_latest_epoch_of_an_empty_directory_is_refused(lead: Lead) -> None:
    leader = lead(restore="latest").start()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, RestoreError)
    assert 'restore="latest-or-new"' in str(leader.coordinator.error)
    assert leader.events("launch", "create") == []


def test_an_epoch_that_does_not_exist_is_refused_with_those_that_do(lead: Lead) -> None:
    with_history(lead, 3)
    leader = lead("B", restore=9).start()
    assert leader.status == "failed"
    assert str(leader.coordinator.error) == "there is no epoch 9; the history has [1, 2, 3]."


def test_an_epoch_that_is_not_kept_any_more_is_refused_with_those_that_are(lead: Lead) -> None:
    leader = lead("old", retain=2).run()
    for _ in range(4):
        leader.complete()
    again = lead("B", restore=1, retain=2).start()
    assert str(again.coordinator.error) == (
        "epoch 1 is not kept any more; those that are: [3, 4]. Restore one of them, or the latest "
        'with restore="latest".'
    )


def test_a_state_that_does_not_fit_is_refused_before_anything_is_written(
    lead: Lead, world: Any
) -> None:
    with_history(lead)
    leader = lead("B", restore="latest")
    other = leader.job.max_parallelism * 2
    object.__setattr__(leader.job, "max_parallelism", other)
    leader.start()
    assert leader.status == "failed"
    assert "max_parallelism=128" in str(leader.coordinator.error)
    assert leader.events("launch", "create") == []


@pytest.mark.parametrize(("restore", "expected"), [("new", "failed"), (1, "launching")])
def test_a_first_read_that_fails_does_not_change_what_was_asked_for(
    lead: Lead, restore: str | int, expected: str
) -> None:
    with_history(lead)
    leader = lead("B", restore=restore)
    leader.world.storage.fail("read", "log/")
    leader.start()
    leader.restart()
    assert leader.status == expected
    assert [record.restored_from for record in leader.coordinator.attempts] in ([], [1])


def test_a_begin_that_fails_does_not_change_what_was_asked_for(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B", restore=1)
    leader.world.storage.fail("create", "log/")
    leader.start()
    leader.restart()
    assert leader.coordinator.attempts[-1].restored_from == 1


def test_a_read_that_fails_at_first_is_tried_again(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B", restore="latest")
    leader.world.storage.fail("read", "log/")
    leader.start()
    assert leader.status == "restarting"
    leader.restart()
    assert leader.status == "launching"
    assert leader.coordinator.attempts[-1].restored_from == 2


# ---------------------------------------------------------------- restoring


def test_the_latest_epoch_is_restored(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B", restore="latest").start()
    assert leader.events("launch") == [("launch", 2)]
    assert leader.coordinator.attempts[-1].restored_from == 2
    assert chain_ids(leader) == ["e2"]
    begin = read_history(leader.world.storage).last_begin
    assert begin is not None
    assert (begin.attempt, begin.restored_from, begin.next_epoch) == (2, 2, 3)


def test_latest_or_new_starts_fresh_where_there_is_nothing(lead: Lead) -> None:
    leader = lead(restore="latest-or-new").start()
    assert leader.status == "launching"
    assert leader.coordinator.attempts[-1].restored_from is None


def test_latest_or_new_restores_where_there_is_something(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B", restore="latest-or-new").start()
    assert leader.coordinator.attempts[-1].restored_from == 2


def test_an_epoch_is_restored_by_its_number_and_later_numbers_are_not_used_again(
    lead: Lead,
) -> None:
    with_history(lead, 3)
    leader = lead("B", restore=1).run()
    assert leader.coordinator.attempts[-1].restored_from == 1
    assert chain_ids(leader) == ["e1"]
    assert leader.complete() == 4
    assert leader.epochs() == [1, 4]


def test_a_source_that_was_planned_to_its_end_is_not_planned_again(lead: Lead) -> None:
    with_history(lead)
    leader = lead("B", restore="latest").run()
    given = [(m.subtask, m.splits, m.last) for m in leader.world.sent(AssignSplits)]
    assert given == [(0, (), True), (1, (), True)]


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
    chosen = choose_first(history, RestoreOptions(start=3), {3})
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
