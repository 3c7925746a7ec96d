"""A leader in doubt: it claims nothing, has nothing committed, and goes on when it is assured."""

from __future__ import annotations

from mainstay.runtime.messages import EpochComplete, SinkCommitted
from tests.unit.runtime.coordinator.committing import Lead


def test_an_epoch_that_is_whole_in_doubt_is_claimed_when_the_doubt_is_over(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.coordinator.doubt(True)
    leader.acknowledge(epoch)
    leader.world.background.drain()
    assert leader.epochs() == []
    leader.coordinator.doubt(False)
    leader.world.background.drain()
    assert leader.epochs() == [epoch]
    assert leader.world.sent(EpochComplete)


def test_what_was_won_in_doubt_is_told_when_the_doubt_is_over(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.world.forget()
    leader.acknowledge(epoch)
    leader.coordinator.doubt(True)
    leader.world.background.drain()
    assert not leader.world.sent(EpochComplete)
    assert not leader.world.sent(SinkCommitted)
    leader.coordinator.doubt(False)
    leader.coordinator.tick()
    leader.world.background.drain()
    assert leader.epochs() == [epoch]
    assert leader.world.sent(EpochComplete)


def test_a_begin_waits_for_the_end_of_a_doubt(lead: Lead) -> None:
    leader = lead()
    leader.coordinator.doubt(True)
    leader.start()
    assert not leader.events("launch", "create")
    assert leader.coordinator.deadline() is None, "there is nothing to do meanwhile"
    leader.coordinator.doubt(False)
    leader.coordinator.tick()
    leader.world.background.drain()
    assert ("launch", 1) in leader.events("launch")


def test_a_restart_waits_for_the_end_of_a_doubt(lead: Lead) -> None:
    leader = lead().run()
    leader.complete()
    leader.coordinator.doubt(True)
    leader.lose_worker()
    leader.pass_time(60.0)
    leader.world.background.drain()
    assert len(leader.events("launch")) == 1
    leader.coordinator.doubt(False)
    leader.coordinator.tick()
    leader.world.background.drain()
    assert len(leader.events("launch")) == 2


def test_sinks_are_recovered_and_committed_when_the_doubt_is_over(lead: Lead) -> None:
    leader = lead().start()
    leader.coordinator.doubt(True)
    leader.ready()
    commits = leader.coordinator.execution.attempt._commits  # type: ignore[union-attr]
    (queue,) = commits._queues.values()
    assert len(queue.waiting) == 1, "the recovery waits"
    assert not queue.is_busy
    leader.coordinator.doubt(False)
    leader.coordinator.tick()
    leader.world.background.drain()
    assert not queue.waiting


def test_a_leader_that_was_replaced_in_doubt_finds_out_with_its_next_slot(lead: Lead) -> None:
    leader = lead().run()
    epoch = leader.trigger()
    leader.coordinator.doubt(True)
    leader.acknowledge(epoch)
    lead("B", restore="latest").run()
    assert leader.status == "running"
    leader.coordinator.doubt(False)
    leader.world.background.drain()
    assert leader.status == "failed"
    assert leader.coordinator.is_replaced
    assert leader.epochs() == []
