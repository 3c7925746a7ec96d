"""Committing an epoch: acknowledgements, the slot, and several epochs at a time."""

from __future__ import annotations

import pytest

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
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.layout import log_slot, manifest_path, segment_path
from tests.unit.runtime.coordinator.committing import Lead

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
    leader.coordinator.workers_lost(Attempt(attempt), "long gone", 0)
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
