"""Epochs that fail, slots whose outcome is not known, fencing, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.errors import FencedError, JobFailedError
from mainstay.runtime.messages import (
    AbortEpoch,
    Attempt,
    EpochComplete,
)
from mainstay.snapshot.commitlog import claim_slot, read_history
from mainstay.snapshot.history import Begin
from mainstay.snapshot.layout import manifest_path, segment_path
from mainstay.state.keygroups import HASH_ID
from tests.unit.runtime.coordinator.committing import Lead


def take_over(storage: Any, leader: str = "B") -> None:
    """Another leader begins an attempt."""
    history = read_history(storage)
    begin = Begin(
        history.next_attempt,
        leader,
        history.latest_epoch.epoch if history.latest_epoch else None,
        "lineage",
        "words",
        128,
        HASH_ID,
        history.next_epoch,
    )
    claim_slot(storage, history, begin, f"{leader}-claim")


# ---------------------------------------------------------------- epochs that fail


def test_an_epoch_that_takes_too_long_is_aborted_and_the_tasks_are_told(lead: Lead) -> None:
    leader = lead(max_concurrent=2).run()
    epoch = leader.trigger()
    leader.acknowledge(epoch, but=("rows", 0))
    leader.world.forget()
    leader.pass_time(60.0)
    assert leader.world.sent(AbortEpoch, to=0) == [AbortEpoch(Attempt(1), epoch)]
    assert leader.world.sent(AbortEpoch, to=1) == [AbortEpoch(Attempt(1), epoch)]
    assert leader.world.sent(EpochComplete) == []
    (record,) = leader.coordinator.records
    assert (record.status, record.reason) == ("failed", "not complete after 60.0 s")


def test_late_acknowledgements_of_an_expired_epoch_are_ignored(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.acknowledge(epoch, but=("rows", 0))
    leader.pass_time(60.0)
    leader.acknowledge(epoch, only=("rows", 0))
    leader.world.background.drain()
    assert leader.epochs() == []
    assert leader.status == "running"


def test_an_epoch_whose_claim_is_under_way_does_not_expire(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    leader.pass_time(1000.0)
    leader.world.background.drain()
    assert leader.epochs() == [1]
    assert leader.world.sent(AbortEpoch) == []


def test_a_decline_aborts_the_epoch_and_the_job_goes_on(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.decline(epoch, "the disk is full")
    assert leader.world.sent(AbortEpoch, to=1) == [AbortEpoch(Attempt(1), epoch)]
    (record,) = leader.coordinator.records
    assert (record.status, record.reason) == ("failed", "totals[0]: the disk is full")
    assert leader.status == "running"
    assert leader.complete() == 2
    assert leader.epochs() == [2]


def test_a_decline_cannot_undo_an_epoch_whose_claim_is_under_way(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.acknowledge(epoch)
    leader.world.background.run_one()
    won = leader.world.background.take().perform()
    leader.decline(epoch)
    won()
    assert leader.outcomes() == [(1, "complete")]
    assert leader.world.sent(AbortEpoch) == []


def test_too_many_failed_epochs_in_a_row_fail_the_attempt(lead: Lead) -> None:
    leader = lead(tolerable_failures=2).run()
    for _ in range(2):
        leader.decline(leader.trigger())
    assert leader.status == "running"
    leader.decline(leader.trigger())
    assert leader.status == "restarting"
    assert leader.events("stop") == [("stop", 1)]
    reason = leader.coordinator.attempts[-1].reason
    assert reason == "3 epochs in a row failed, the last one (3) because: totals[0]: no space"


def test_a_completed_epoch_ends_the_row_of_failures(lead: Lead) -> None:
    leader = lead(tolerable_failures=1).run()
    leader.decline(leader.trigger())
    leader.complete()
    leader.decline(leader.trigger())
    assert leader.status == "running"


def test_a_manifest_that_cannot_be_written_aborts_the_epoch(lead: Lead) -> None:
    leader = lead().run()
    leader.world.storage.fail("write", "epochs/")
    epoch = leader.complete()
    assert leader.epochs() == []
    assert leader.world.sent(EpochComplete) == []
    assert leader.world.sent(AbortEpoch, to=0) == [AbortEpoch(Attempt(1), epoch)]
    assert "could not be written" in leader.coordinator.records[0].reason
    leader.complete()
    assert leader.epochs() == [2]


def test_a_slot_that_surely_was_not_written_aborts_the_epoch(lead: Lead) -> None:
    leader = lead().run()
    leader.world.storage.fail("create", "log/")
    leader.complete()
    assert leader.outcomes() == [(1, "failed")]
    leader.complete()
    assert leader.epochs() == [2]


# ---------------------------------------------------------------- outcome unknown


@pytest.mark.parametrize("how", ["unknown", "unknown-done"])
def test_a_claim_of_unknown_outcome_is_asked_again_and_never_taken_for_a_failure(
    lead: Lead, how: str
) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.world.storage.fail("create", "log/", how)
    leader.world.storage.fail("read", "log/")
    leader.acknowledge(epoch)
    leader.world.background.drain()
    assert leader.outcomes() == []
    assert leader.world.sent(EpochComplete) == []
    assert leader.world.sent(AbortEpoch) == []
    due = leader.coordinator.deadline()
    assert due is not None
    leader.pass_time(due - leader.world.clock.now)
    leader.world.background.drain()
    assert leader.epochs() == [1]
    assert leader.outcomes() == [(1, "complete")]
    assert len(leader.world.sent(EpochComplete)) == 2


def test_an_unknown_outcome_is_asked_for_until_it_is_known(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    for _ in range(4):
        leader.world.storage.fail("create", "log/", "unknown")
        leader.world.storage.fail("read", "log/")
    leader.acknowledge(epoch)
    leader.world.background.drain()
    for _ in range(4):
        assert leader.outcomes() == []
        leader.pass_time(1.0)
        leader.world.background.drain()
    assert leader.epochs() == [1]


def test_no_other_epoch_overtakes_one_whose_outcome_is_unknown(lead: Lead) -> None:
    leader = lead(max_concurrent=2).run()
    first, second = leader.trigger(), leader.trigger()
    leader.world.storage.fail("create", "log/", "unknown-done")
    leader.world.storage.fail("read", "log/")
    leader.acknowledge(first)
    leader.world.background.drain()
    leader.acknowledge(second)
    assert leader.world.background.queue == []
    leader.pass_time(1.0)
    leader.world.background.drain()
    assert leader.epochs() == [1, 2]


# ---------------------------------------------------------------- fencing


def test_a_lost_slot_fences_the_leader(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    take_over(leader.world.storage)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, FencedError)
    assert "another driver has taken over job" in str(leader.coordinator.error)
    assert leader.events("stop") == [("stop", 1)]
    assert leader.world.sent(EpochComplete) == []
    assert leader.epochs() == []


def test_a_fenced_leader_does_nothing_more(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    take_over(leader.world.storage)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.world.forget()
    leader.pass_time(1000.0)
    leader.acknowledge(epoch)
    leader.lose_worker()
    leader.coordinator.cancel()
    leader.world.background.drain()
    assert leader.world.events == []
    assert leader.status == "failed"


# ---------------------------------------------------------------- retention


def test_old_files_are_deleted_only_after_the_epoch_that_replaces_them_is_complete(
    lead: Lead,
) -> None:
    leader = lead(retain=1).run()
    leader.complete(files=("a", "b"))
    epoch = leader.trigger()
    leader.world.forget()
    leader.acknowledge(epoch, files=("b", "c"))
    leader.world.background.drain()
    kinds = [event[0] for event in leader.world.events]
    assert kinds.index("create") < kinds.index("delete")
    assert [event[1] for event in leader.events("delete")] == [
        manifest_path(1, 1),
        segment_path("totals", 0, 1, "a"),
        segment_path("totals", 1, 1, "a"),
    ]


def test_a_failed_epoch_deletes_nothing(lead: Lead) -> None:
    leader = lead(retain=1).run()
    leader.complete(files=("a",))
    epoch = leader.trigger()
    leader.acknowledge(epoch, but=("rows", 0), files=("b",))
    leader.decline(epoch)
    leader.world.background.drain()
    assert leader.events("delete") == []


def test_as_many_epochs_are_kept_as_was_asked_for(lead: Lead) -> None:
    leader = lead(retain=3).run()
    for _ in range(5):
        leader.complete()
    assert leader.world.storage.list("epochs/") == [manifest_path(n, 1) for n in (3, 4, 5)]


def test_files_that_a_pending_epoch_has_acknowledged_are_not_deleted(lead: Lead) -> None:
    leader = lead(retain=1, max_concurrent=2).run()
    leader.complete(files=("a",))
    second, third = leader.trigger(), leader.trigger()
    leader.acknowledge(third, only=("totals", 0), files=("a", "d"))
    leader.acknowledge(second, files=("c",))
    leader.world.background.drain()
    deleted = [event[1] for event in leader.events("delete")]
    assert segment_path("totals", 0, 1, "a") not in deleted
    assert segment_path("totals", 1, 1, "a") in deleted


def test_a_failure_to_delete_does_not_disturb_the_job(lead: Lead) -> None:
    leader = lead(retain=1).run()
    leader.complete(files=("a",))
    epoch = leader.trigger()
    leader.acknowledge(epoch, files=("b",))
    leader.world.background.run_one()
    leader.world.background.run_one()
    leader.world.background.take().fail(OSError("read-only"))
    assert leader.status == "running"
    assert leader.complete() == 3


def test_the_reason_for_giving_up_on_epochs_is_an_error_of_the_job(lead: Lead) -> None:
    leader = lead(tolerable_failures=0, max_failures=0).run()
    leader.decline(leader.trigger(), "the disk is full")
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, JobFailedError)
    assert "the disk is full" in str(leader.coordinator.error)
