"""What a leader says in the log when it ends a job, and how long it waits to be heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.runtime.coordinator.farewell import PATIENCE_S
from mainstay.runtime.messages import Attempt, WorkerFailed
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.history import Ended

Lead = Callable[..., Any]


def ended(leader: Any) -> Ended | None:
    return read_history(leader.world.storage).ended


def said(leader: Any) -> tuple[str, str]:
    found = ended(leader)
    assert found is not None
    assert found.at == leader.world.clock.wall()
    return found.how, found.reason


def fail(leader: Any, error: Exception) -> None:
    leader.coordinator.receive(WorkerFailed(Attempt(1), 0, error))


def test_a_job_that_fails_for_good_says_why(lead: Lead) -> None:
    leader = lead(max_failures=0).run()
    fail(leader, OSError("the disk is gone"))
    assert (leader.status, leader.coordinator.is_done) == ("failed", False)
    leader.world.background.drain()
    assert leader.coordinator.is_done
    assert said(leader) == ("failed", "job 'words' failed: OSError: the disk is gone")


def test_a_job_that_is_cancelled_says_so(lead: Lead) -> None:
    leader = lead().run()
    leader.coordinator.cancel()
    assert leader.status == "cancelled"
    leader.world.background.drain()
    assert leader.coordinator.is_done
    assert said(leader) == ("cancelled", "")


def test_a_job_that_is_stopped_says_so_after_its_last_epoch(lead: Lead) -> None:
    leader = lead().run()
    leader.coordinator.stop(None, lambda error: None)
    epoch = leader.trigger()
    leader.acknowledge(epoch)
    leader.world.background.drain()
    leader.confirm(epoch)
    leader.world.background.drain()
    assert leader.status == "stopped"
    leader.world.background.drain()
    assert leader.coordinator.is_done
    assert said(leader) == ("stopped", "")


def test_a_job_that_restarts_has_not_ended(lead: Lead) -> None:
    leader = lead().run()
    fail(leader, OSError("the disk is gone"))
    leader.world.background.drain()
    assert (leader.status, ended(leader)) == ("restarting", None)


def test_the_next_begin_takes_the_end_back(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.coordinator.cancel()
    leader.world.background.drain()
    again = lead("B", restore="latest").start()
    assert again.coordinator.attempts[-1].restored_from == 1
    assert ended(again) is None


def test_an_epoch_under_way_is_decided_before_the_end_is_said(lead: Lead) -> None:
    leader = lead().run()
    leader.acknowledge(leader.trigger())
    leader.coordinator.cancel()
    leader.world.background.run_one()
    assert ended(leader) is None
    leader.coordinator.tick()
    leader.world.background.drain()
    leader.coordinator.tick()
    leader.world.background.drain()
    assert said(leader) == ("cancelled", "")
    assert leader.coordinator.is_done


def test_a_storage_that_does_not_answer_is_not_waited_for_long(lead: Lead) -> None:
    leader = lead().run()
    leader.coordinator.cancel()
    assert leader.coordinator.deadline() == leader.world.clock.now + PATIENCE_S
    leader.pass_time(PATIENCE_S)
    assert leader.coordinator.is_done
    assert leader.coordinator.deadline() is None


@pytest.mark.parametrize("how", ["refused", "unknown"])
def test_a_storage_that_fails_does_not_hold_up_the_end(lead: Lead, how: str) -> None:
    leader = lead().run()
    leader.world.storage.fail("create", "log/", how)
    leader.world.storage.fail("read", "log/")
    leader.coordinator.cancel()
    leader.world.background.drain()
    leader.pass_time(PATIENCE_S)
    assert leader.coordinator.is_done
    assert leader.status == "cancelled"


def test_a_leader_that_was_replaced_says_nothing(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    other = lead("B", restore="latest").run()
    leader.complete()
    assert leader.status == "failed"
    assert leader.coordinator.is_done
    assert ended(other) is None


def test_a_leader_that_was_replaced_unnoticed_ends_nothing(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    other = lead("B", restore="latest").run()
    leader.coordinator.cancel()
    leader.world.background.drain()
    assert (leader.status, leader.coordinator.is_done) == ("cancelled", True)
    assert ended(other) is None
    assert other.complete() == 2


def test_a_job_that_was_refused_says_nothing(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    refused = lead("B").start()
    assert (refused.status, refused.coordinator.is_done) == ("failed", True)
    assert ended(leader) is None


def test_nothing_is_written_where_the_history_has_vanished(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.lose_worker()
    leader.world.storage._files.clear()
    leader.restart()
    assert (leader.status, leader.coordinator.is_done) == ("failed", True)
    assert leader.world.storage.list("log/") == []
