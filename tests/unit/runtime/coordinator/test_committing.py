"""Epochs: from the trigger to the log, and what can come in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.errors import FencedError, JobFailedError
from mainstay.runtime.messages import (
    AbortEpoch,
    AssignSplits,
    Attempt,
    Epoch,
    EpochComplete,
    Ready,
    Trigger,
)
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import claim_slot, read_history
from mainstay.snapshot.history import Begin
from mainstay.snapshot.layout import log_slot, manifest_path, segment_path
from mainstay.state.keygroups import HASH_ID

Lead = Callable[..., Any]


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


# ---------------------------------------------------------------- the good case


def test_an_epoch_is_triggered_at_every_worker_when_it_is_due(lead: Lead) -> None:
    leader = lead().run()
    leader.pass_time(9.9)
    assert leader.world.sent(Trigger) == []
    leader.pass_time(0.1)
    expected = Trigger(Attempt(1), Epoch(1))
    assert [e for e in leader.events("send") if isinstance(e[2], Trigger)] == [
        ("send", 0, expected),
        ("send", 1, expected),
    ]


def test_no_epoch_is_triggered_before_all_workers_are_ready(lead: Lead) -> None:
    leader = lead().start()
    leader.pass_time(100.0)
    assert leader.world.sent(Trigger) == []
    assert leader.status == "launching"
    leader.ready()
    assert leader.status == "running"


def test_the_manifest_is_written_then_the_slot_claimed_then_everyone_told(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.world.forget()
    leader.acknowledge(epoch)
    leader.world.background.drain()
    complete = EpochComplete(Attempt(1), epoch)
    assert leader.world.events[:4] == [
        ("write", manifest_path(1, 1)),
        ("create", log_slot(1)),
        ("send", 0, complete),
        ("send", 1, complete),
    ]
    assert leader.epochs() == [1]
    assert leader.outcomes() == [(1, "complete")]


def test_nothing_is_written_while_an_acknowledgement_is_missing(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.acknowledge(epoch, but=("totals", 1))
    assert leader.world.background.queue == []
    leader.acknowledge(epoch, only=("totals", 1))
    assert len(leader.world.background.queue) == 1


def test_nobody_is_told_before_the_slot_is_known_to_be_won(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    leader.world.background.run_one()
    won = leader.world.background.take().perform()
    assert leader.epochs() == [1]
    assert leader.world.sent(EpochComplete) == []
    won()
    assert len(leader.world.sent(EpochComplete)) == 2


def test_the_manifest_holds_what_was_acknowledged_and_what_is_known_of_sources(
    lead: Lead,
) -> None:
    leader = lead().run()
    leader.complete()
    history = read_history(leader.world.storage)
    assert history.latest_epoch is not None
    manifest = read_manifest(leader.world.storage, history.latest_epoch.manifest)
    assert (manifest.epoch, manifest.attempt, manifest.lineage) == (1, 1, "lineage-A-1")
    assert set(manifest.operators) == {"rows", "totals", "out"}
    assert manifest.operators["totals"].key_type == "string"
    assert [file.path for file in manifest.files()] == [
        segment_path("totals", 0, 1, "e1"),
        segment_path("totals", 1, 1, "e1"),
    ]
    notes = dict(manifest.sources["rows"])
    assert len(notes.pop("marks")["newest"]) == 2
    assert notes == {"seen": ["rows-0-1", "rows-1-2"], "complete": True}


def test_what_is_known_of_sources_is_captured_at_the_trigger(lead: Lead) -> None:
    """A split that is planned after the trigger is in no reader's state of that epoch."""
    leader = lead().start()
    for worker in (0, 1):
        leader.coordinator.receive(Ready(Attempt(1), worker))
    planning = leader.world.background.take()
    epoch = leader.trigger()
    planning.run()
    leader.acknowledge(epoch)
    leader.world.background.drain()
    latest = read_history(leader.world.storage).latest_epoch
    assert latest is not None
    manifest = read_manifest(leader.world.storage, latest.manifest)
    assert manifest.sources == {"rows": {"seen": [], "complete": False}}
    events = [type(event[2]) for event in leader.events("send") if event[1] == 0]
    assert events.index(Trigger) < events.index(AssignSplits)


# ---------------------------------------------------------------- words that do not count


def test_repeated_acknowledgements_are_ignored(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    for _ in range(5):
        leader.acknowledge(epoch, only=("totals", 0))
    assert leader.world.background.queue == []
    leader.acknowledge(epoch)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.acknowledge(epoch)
    leader.world.background.drain()
    assert leader.outcomes() == [(1, "complete")]
    assert leader.epochs() == [1]


def test_words_about_unknown_epochs_are_ignored(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.world.forget()
    leader.acknowledge(7)
    leader.decline(7)
    assert leader.world.events == []
    assert leader.world.background.queue == []
    assert leader.outcomes() == []
    leader.acknowledge(epoch)
    leader.world.background.drain()
    assert leader.epochs() == [epoch]


@pytest.mark.parametrize("attempt", [0, 2])
def test_words_of_other_attempts_are_ignored(lead: Lead, attempt: int) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.acknowledge(epoch, attempt=attempt)
    leader.decline(epoch, attempt=attempt)
    leader.coordinator.worker_lost(Attempt(attempt), 0, "long gone")
    leader.world.background.drain()
    assert leader.status == "running"
    assert leader.epochs() == []
    assert leader.outcomes() == []


# ---------------------------------------------------------------- several at a time


def test_only_as_many_epochs_are_triggered_as_may_be_pending(lead: Lead) -> None:
    leader = lead(max_concurrent=2).run()
    assert [leader.trigger(), leader.trigger()] == [1, 2]
    leader.pass_time(30.0)
    assert len(leader.world.sent(Trigger)) == 4


def test_completing_an_epoch_subsumes_the_older_pending_one_and_tells_the_tasks(
    lead: Lead,
) -> None:
    leader = lead(max_concurrent=2).run()
    first, second = leader.trigger(), leader.trigger()
    leader.acknowledge(first, but=("rows", 0))
    leader.world.forget()
    leader.acknowledge(second)
    leader.world.background.drain()
    assert leader.epochs() == [2]
    assert leader.outcomes() == [(1, "subsumed"), (2, "complete")]
    told = [event[2] for event in leader.events("send") if event[1] == 0]
    assert told[:2] == [AbortEpoch(Attempt(1), first), EpochComplete(Attempt(1), second)]
    leader.acknowledge(first)
    leader.world.background.drain()
    assert leader.epochs() == [2]


def test_two_whole_epochs_are_committed_in_their_order(lead: Lead) -> None:
    leader = lead(max_concurrent=2).run()
    first, second = leader.trigger(), leader.trigger()
    leader.acknowledge(first)
    leader.acknowledge(second)
    assert len(leader.world.background.queue) == 1
    leader.world.background.drain()
    assert leader.epochs() == [1, 2]
    assert leader.outcomes() == [(1, "complete"), (2, "complete")]


def test_an_epoch_that_becomes_whole_behind_a_newer_one_in_the_log_is_subsumed(
    lead: Lead,
) -> None:
    leader = lead(max_concurrent=2).run()
    first, second = leader.trigger(), leader.trigger()
    leader.acknowledge(second)
    leader.acknowledge(first)
    leader.world.background.drain()
    assert leader.epochs() == [2]
    assert leader.outcomes() == [(1, "subsumed"), (2, "complete")]


def test_the_pause_after_an_epoch_is_kept(lead: Lead) -> None:
    leader = lead(min_pause_s=8.0).run()
    epoch = leader.trigger()
    leader.pass_time(5.0)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.world.forget()
    leader.pass_time(7.9)
    assert leader.world.sent(Trigger) == []
    leader.pass_time(0.1)
    assert len(leader.world.sent(Trigger)) == 2


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
    assert "slot 1 of the commit log was taken by another leader" in str(leader.coordinator.error)
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
