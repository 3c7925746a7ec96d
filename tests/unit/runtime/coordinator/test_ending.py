"""The end of a bounded job: the final epoch, the commits of the sinks, the log, the release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.runtime.messages import AbortEpoch, Attempt, Epoch, EpochComplete, Release, Trigger
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.history import Finished
from mainstay.snapshot.layout import log_slot

Lead = Callable[..., Any]


def final_trigger(leader: Any) -> Epoch:
    """All input has ended: the final epoch is triggered without waiting for the interval."""
    before = len(leader.world.sent(Trigger))
    leader.end_all()
    (first, _) = leader.world.sent(Trigger)[before:]
    epoch: Epoch = first.epoch
    return epoch


def finish(leader: Any) -> Epoch:
    epoch = final_trigger(leader)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.confirm(epoch)
    leader.world.background.drain()
    leader.answer_releases()
    leader.world.background.drain()
    return epoch


def test_the_final_epoch_is_triggered_at_once_when_everything_has_ended(lead: Lead) -> None:
    leader = lead().run()
    leader.end_all(but=("totals", 1))
    assert leader.world.sent(Trigger) == []
    leader.end_all()
    assert [message.epoch for message in leader.world.sent(Trigger)] == [1, 1]


def test_the_final_epoch_waits_for_the_one_that_is_pending(lead: Lead) -> None:
    leader = lead().run()
    first = leader.trigger()
    leader.end_all()
    assert len(leader.world.sent(Trigger)) == 2
    leader.acknowledge(first)
    leader.world.background.drain()
    leader.coordinator.tick()
    assert [message.epoch for message in leader.world.sent(Trigger)] == [1, 1, 2, 2]
    assert leader.status == "running"


def test_the_end_is_final_epoch_then_commits_then_the_log_then_the_release(lead: Lead) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.world.forget()
    leader.acknowledge(epoch)
    leader.world.background.drain()
    assert leader.epochs() == [1]
    assert len(leader.world.sent(EpochComplete)) == 2
    assert leader.events("create") == [("create", log_slot(1))]

    leader.confirm(epoch, 0)
    leader.world.background.drain()
    assert leader.events("create") == [("create", log_slot(1))]

    leader.confirm(epoch, 1)
    assert leader.world.sent(Release) == []
    leader.world.background.drain()
    assert leader.events("create") == [("create", log_slot(1)), ("create", log_slot(2))]
    assert leader.events("send")[-2:] == [
        ("send", 0, Release(Attempt(1))),
        ("send", 1, Release(Attempt(1))),
    ]
    assert leader.status == "finished"
    assert read_history(leader.world.storage).recent[-1] == Finished(1, 1)


def test_the_commit_of_an_older_epoch_is_not_enough(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.confirm(1)
    epoch = final_trigger(leader)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.confirm(1)
    leader.world.background.drain()
    assert leader.status == "running"
    leader.confirm(epoch)
    leader.world.background.drain()
    assert leader.status == "finished"


def test_no_epoch_is_triggered_after_the_final_one(lead: Lead) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.pass_time(1000.0)
    assert [message.epoch for message in leader.world.sent(Trigger)] == [1, 1]


def test_a_failed_final_epoch_is_tried_again(lead: Lead) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.decline(epoch)
    assert leader.world.sent(AbortEpoch, to=0) == [AbortEpoch(Attempt(1), epoch)]
    leader.coordinator.tick()
    assert [m.epoch for m in leader.world.sent(Trigger, to=0)] == [1, 2]
    leader.acknowledge(2)
    leader.world.background.drain()
    leader.confirm(2)
    leader.world.background.drain()
    assert leader.status == "finished"


def test_a_final_epoch_that_cannot_be_stored_is_tried_again(lead: Lead) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.world.storage.fail("write", "epochs/")
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.coordinator.tick()
    assert [m.epoch for m in leader.world.sent(Trigger, to=0)] == [1, 2]


def test_a_worker_that_is_lost_before_the_sinks_have_committed_repeats_the_end(lead: Lead) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.confirm(epoch, 0)
    leader.lose_worker()
    leader.restart()
    leader.ready()
    assert leader.coordinator.attempts[-1].restored_from == epoch
    assert finish(leader) == 2
    assert leader.status == "finished"


def test_words_of_the_attempt_before_do_not_end_the_next_one(lead: Lead) -> None:
    leader = lead().run()
    leader.end_all(but=("rows", 0))
    leader.lose_worker()
    leader.restart()
    leader.ready()
    leader.end_all(but=("rows", 1))
    assert leader.world.sent(Trigger) == []


@pytest.mark.parametrize("how", ["unknown", "unknown-done"])
def test_an_end_of_unknown_outcome_is_asked_again(lead: Lead, how: str) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.world.storage.fail("create", "log/", how)
    leader.world.storage.fail("read", "log/")
    leader.confirm(epoch)
    leader.world.background.drain()
    assert leader.status == "running"
    assert leader.world.sent(Release) == []
    leader.pass_time(1.0)
    leader.world.background.drain()
    assert leader.status == "finished"
    assert read_history(leader.world.storage).next_slot == 3


def test_an_older_epoch_of_a_finished_job_can_be_restored_by_number(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    finish(leader)
    again = lead("B", restore=1).start()
    assert again.status == "launching"
    assert again.coordinator.attempts[-1].restored_from == 1


def test_a_finished_job_hears_and_does_nothing_more(lead: Lead) -> None:
    leader = lead().run()
    finish(leader)
    leader.world.forget()
    leader.lose_worker()
    leader.coordinator.cancel()
    leader.pass_time(1000.0)
    leader.world.background.drain()
    assert leader.world.events == []
    assert leader.status == "finished"
    assert leader.coordinator.deadline() is None


def test_a_job_that_was_cancelled_stays_cancelled(lead: Lead) -> None:
    leader = lead().run()
    epoch = final_trigger(leader)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.confirm(epoch)
    leader.coordinator.cancel()
    leader.world.background.drain()
    assert leader.status == "cancelled"
