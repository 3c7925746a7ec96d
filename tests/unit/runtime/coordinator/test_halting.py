from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstay.errors import JobFailedError, SavepointError
from mainstay.runtime.messages import Drain, Release, Trigger
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.savepoint import read_savepoint
from tests.unit.runtime.coordinator.conftest import plan
from tests.unit.runtime.coordinator.test_savepoints import Answer, settle

Lead = Callable[..., Any]


def stop(leader: Any, path: str | None = None, *, drain: bool = False) -> Answer:
    answer = Answer()
    leader.coordinator.stop(path, answer, drain=drain)
    settle(leader)
    return answer


def last_trigger(leader: Any) -> Trigger:
    trigger: Trigger = leader.world.sent(Trigger)[-1]
    return trigger


def acknowledge(leader: Any) -> int:
    epoch: int = last_trigger(leader).epoch
    leader.acknowledge(epoch, files=())
    settle(leader)
    return epoch


# ---------------------------------------------------------------- stop


def test_a_stop_takes_one_last_epoch_and_waits_for_its_sinks(lead: Lead) -> None:
    leader = lead().run()
    answer = stop(leader)
    assert last_trigger(leader).is_last
    epoch = acknowledge(leader)
    leader.pass_time(100.0)
    assert last_trigger(leader).epoch == epoch, "no epoch comes after the last"
    assert leader.status == "running"
    leader.confirm(epoch)
    assert leader.status == "stopped"
    assert answer.told == [None]
    assert len(leader.world.sent(Release)) == 2


def test_a_stopped_job_is_not_finished_and_goes_on(lead: Lead) -> None:
    leader = lead().run()
    stop(leader)
    epoch = acknowledge(leader)
    leader.confirm(epoch)
    assert not read_history(leader.world.storage).finished
    again = lead("B", restore="latest").run()
    assert again.status == "running"
    assert again.coordinator.attempts[0].restored_from == epoch
    assert not again.cluster.deployments[0].is_held


def test_a_stop_with_a_path_leaves_a_savepoint_of_the_last_epoch(lead: Lead) -> None:
    leader = lead(max_concurrent=2).run()
    early = leader.trigger()
    answer = stop(leader, "there")
    leader.acknowledge(early, files=())
    settle(leader)
    epoch = acknowledge(leader)
    assert epoch > early
    leader.confirm(epoch)
    for _ in range(3):
        settle(leader)
    assert answer.told == [None]
    assert leader.status == "stopped"
    assert read_savepoint(leader.world.places["there"], "there").epoch == epoch


def test_a_job_goes_on_when_its_savepoint_cannot_be_begun(lead: Lead) -> None:
    leader = lead().run()
    leader.world.places["there"] = MemoryStorage()
    leader.world.places["there"].write("mine", b"x")
    answer = stop(leader, "there")
    assert isinstance(answer.error, SavepointError)
    assert leader.world.sent(Trigger) == []
    leader.complete()
    assert leader.status == "running"
    assert stop(leader).told == []


def test_a_job_stops_all_the_same_when_its_savepoint_fails_later(lead: Lead) -> None:
    leader = lead().run()
    answer = stop(leader, "there")
    epoch = last_trigger(leader).epoch
    leader.acknowledge(epoch)  # with files that are no state files
    settle(leader)
    leader.confirm(epoch)
    assert leader.status == "stopped"
    assert "stopped all the same" in str(answer.error)
    assert 'restore="latest"' in str(answer.error)


def test_a_drain_ends_the_input_before_the_last_epoch(lead: Lead) -> None:
    leader = lead().run()
    answer = stop(leader, drain=True)
    assert len(leader.world.sent(Drain)) == 2
    leader.complete(files=())
    assert not last_trigger(leader).is_last
    leader.end_all()
    leader.pass_time(0.0)
    assert last_trigger(leader).is_last
    epoch = acknowledge(leader)
    leader.confirm(epoch)
    leader.answer_releases()
    assert answer.told == [None]
    assert leader.status == "stopped"
    assert len(leader.world.sent(Drain)) == 2, "once is enough"


def test_a_job_that_ends_by_itself_meanwhile_is_finished(lead: Lead) -> None:
    leader = lead().run()
    leader.end_all()
    answer = stop(leader)
    assert not last_trigger(leader).is_last
    epoch = acknowledge(leader)
    leader.confirm(epoch)
    leader.world.background.drain()
    assert leader.status == "finished"
    assert answer.told == [None]


def test_a_last_epoch_that_fails_is_tried_again(lead: Lead) -> None:
    leader = lead().run()
    stop(leader)
    leader.decline(1)
    leader.trigger()
    assert last_trigger(leader).epoch == 2
    assert last_trigger(leader).is_last
    leader.confirm(acknowledge(leader))
    assert leader.status == "stopped"


def test_an_attempt_that_fails_on_the_way_is_followed_by_one_that_stops(lead: Lead) -> None:
    leader = lead().run()
    stop(leader)
    leader.lose_worker()
    leader.restart()
    assert not leader.cluster.deployments[-1].is_held, "it has not come to its last epoch"
    leader.ready()
    leader.pass_time(0.0)
    assert last_trigger(leader).is_last
    leader.confirm(acknowledge(leader))
    assert leader.status == "stopped"


def test_after_the_last_epoch_a_failure_makes_nobody_read_on(lead: Lead) -> None:
    leader = lead().run()
    answer = stop(leader, "there", drain=True)
    leader.end_all()
    leader.pass_time(0.0)
    epoch = acknowledge(leader)
    leader.lose_worker()
    leader.restart()
    assert leader.coordinator.attempts[-1].restored_from == epoch
    assert leader.cluster.deployments[-1].is_held
    leader.ready()
    leader.pass_time(0.0)
    assert last_trigger(leader).is_last, "it is not drained once more"
    leader.confirm(acknowledge(leader))
    for _ in range(3):
        settle(leader)
    assert leader.status == "stopped"
    assert answer.told == [None]
    assert read_savepoint(leader.world.places["there"], "there").epoch == epoch


def test_a_job_is_stopped_once(lead: Lead) -> None:
    leader = lead().run()
    stop(leader)
    again = stop(leader)
    assert "is being stopped or rescaled already" in str(again.error)
    leader.confirm(acknowledge(leader))
    leader.answer_releases()
    late = stop(leader)
    assert isinstance(late.error, JobFailedError)
    assert "the job is over (stopped)" in str(late.error)


# ---------------------------------------------------------------- rescale


def test_a_rescale_goes_on_from_its_last_epoch_with_another_plan(lead: Lead) -> None:
    leader = lead().run()
    lineage = leader.cluster.deployments[0].lineage
    answer, other = Answer(), plan(3)
    leader.coordinator.rescale(other, answer)
    leader.pass_time(0.0)
    assert last_trigger(leader).is_last
    epoch = acknowledge(leader)
    deployment = leader.cluster.deployments[-1]
    assert (deployment.job, deployment.lineage) == (other, lineage)
    assert not deployment.is_held
    assert leader.coordinator.attempts[-1].restored_from == epoch
    assert leader.coordinator.attempts[0].reason == "rescaled"
    assert ("stop", 1) in leader.events("stop")
    assert answer.told == []
    leader.job = other
    leader.ready(3)
    assert answer.told == [None]
    assert leader.status == "running"
    leader.complete(files=(), workers=3)


def test_a_rescale_does_not_wait_for_sinks(lead: Lead) -> None:
    leader = lead().run()
    leader.coordinator.rescale(plan(3), Answer())
    leader.pass_time(0.0)
    acknowledge(leader)
    assert len(leader.cluster.deployments) == 2


def test_a_rescaled_job_that_fails_restarts_at_the_new_parallelism(lead: Lead) -> None:
    leader = lead().run()
    other = plan(3)
    leader.coordinator.rescale(other, Answer())
    leader.pass_time(0.0)
    acknowledge(leader)
    leader.ready(3)
    leader.lose_worker()
    leader.restart()
    assert leader.cluster.deployments[-1].job == other
    assert not leader.cluster.deployments[-1].is_held
    leader.ready(3)
    leader.pass_time(20.0)
    assert not last_trigger(leader).is_last


def test_a_job_that_ends_instead_says_so(lead: Lead) -> None:
    leader = lead().run()
    answer = Answer()
    leader.coordinator.rescale(plan(3), answer)
    leader.coordinator.cancel()
    assert "did not halt: the job is over (cancelled)" in str(answer.error)
