from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstay.errors import DamagedFileError, HistoryExistsError, RestoreError, SavepointError
from mainstay.runtime.messages import Trigger
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.savepoint import SAVEPOINT_FILE, UNFINISHED_FILE, read_savepoint

Lead = Callable[..., Any]


class Answer:
    """What whoever asked was told."""

    def __init__(self) -> None:
        self.told: list[Exception | None] = []

    def __call__(self, error: Exception | None) -> None:
        self.told.append(error)

    @property
    def error(self) -> Exception:
        (error,) = self.told
        assert error is not None
        return error


def ask(leader: Any, path: str = "there") -> Answer:
    answer = Answer()
    leader.coordinator.savepoint(path, answer)
    leader.world.background.drain()
    leader.pass_time(0.0)
    return answer


def settle(leader: Any) -> None:
    for _ in range(2):
        leader.pass_time(0.0)
        leader.world.background.drain()
    leader.answer_releases()
    leader.world.background.drain()


def save(leader: Any, path: str = "there") -> int:
    """Take a savepoint from the request to its end; its epoch."""
    answer = ask(leader, path)
    epoch: int = leader.world.sent(Trigger)[-1].epoch
    leader.acknowledge(epoch, files=())
    leader.world.background.drain()
    leader.confirm(epoch)
    settle(leader)
    assert answer.told == [None]
    return epoch


def test_a_savepoint_is_an_epoch_that_is_triggered_at_once(lead: Lead) -> None:
    leader = lead().run()
    assert leader.world.sent(Trigger) == []
    ask(leader)
    assert [message.epoch for message in leader.world.sent(Trigger)] == [1, 1]
    assert not leader.world.sent(Trigger)[0].is_last


def test_a_savepoint_exists_when_every_sink_has_confirmed_its_epoch(lead: Lead) -> None:
    leader = lead().run()
    answer = ask(leader)
    leader.acknowledge(1, files=())
    settle(leader)
    target = leader.world.places["there"]
    assert UNFINISHED_FILE in target.list("")
    assert SAVEPOINT_FILE not in target.list("")
    leader.confirm(1, 0)
    settle(leader)
    assert answer.told == []
    leader.confirm(1, 1)
    settle(leader)
    assert answer.told == [None]
    savepoint = read_savepoint(target, "there")
    assert (savepoint.job, savepoint.epoch, savepoint.max_parallelism) == ("words", 1, 128)
    assert savepoint.operators["totals"].key_names == ("k",)
    assert UNFINISHED_FILE not in target.list("")
    assert leader.status == "running"


def test_it_is_noted_in_the_log_and_the_next_epoch_is_committed_all_the_same(lead: Lead) -> None:
    leader = lead().run()
    save(leader)
    assert leader.complete() == 2
    notes = read_history(leader.world.storage).savepoints
    assert [(note.name, note.epoch) for note in notes] == [("there", 1)]
    assert leader.epochs() == [1, 2]


def test_an_epoch_that_was_under_way_before_does_not_count(lead: Lead) -> None:
    leader = lead(max_concurrent=2).run()
    early = leader.trigger()
    answer = ask(leader)
    assert leader.world.sent(Trigger)[-1].epoch == 2
    leader.acknowledge(early, files=())
    leader.confirm(early)
    settle(leader)
    assert answer.told == []
    leader.acknowledge(2, files=())
    settle(leader)
    leader.confirm(2)
    settle(leader)
    assert answer.told == [None]
    assert read_savepoint(leader.world.places["there"], "there").epoch == 2


def test_an_epoch_that_fails_is_followed_by_another_soon(lead: Lead) -> None:
    leader = lead(every_s=1000.0).run()
    answer = ask(leader)
    leader.decline(1)
    assert leader.trigger() == 2
    assert leader.world.clock.now < 200.0
    leader.acknowledge(2, files=())
    settle(leader)
    leader.confirm(2)
    settle(leader)
    assert answer.told == [None]


def test_a_request_outlives_the_attempt(lead: Lead) -> None:
    leader = lead().run()
    answer = ask(leader)
    leader.lose_worker()
    leader.restart()
    leader.ready()
    leader.pass_time(0.0)
    epoch = leader.world.sent(Trigger)[-1].epoch
    assert epoch > 1
    leader.acknowledge(epoch, files=())
    settle(leader)
    leader.confirm(epoch)
    settle(leader)
    assert answer.told == [None]


def test_a_target_that_is_taken_is_refused_and_no_epoch_is_triggered(lead: Lead) -> None:
    leader = lead().run()
    leader.world.places["there"] = MemoryStorage()
    leader.world.places["there"].write("mine", b"x")
    answer = ask(leader)
    assert isinstance(answer.error, SavepointError)
    assert "something at 'there' already" in str(answer.error)
    assert leader.world.sent(Trigger) == []
    assert leader.world.places["there"].list("") == ["mine"]


def test_a_savepoint_that_cannot_be_read_together_harms_nobody_else(lead: Lead) -> None:
    leader = lead().run()
    answer = ask(leader)
    leader.acknowledge(1)  # with files that are no state files
    settle(leader)
    assert isinstance(answer.error, SavepointError)
    assert "the savepoint 'there' was not written" in str(answer.error)
    assert "state/totals" in str(answer.error)
    assert leader.world.places["there"].list("") == []
    assert leader.status == "running"
    assert leader.complete() == 2


def test_files_stay_while_a_savepoint_is_made_of_them_and_go_with_a_later_epoch(
    lead: Lead,
) -> None:
    leader = lead(retain=1).run()
    leader.coordinator.requests.savepoints.pinned = lambda: {"state/totals/a0001/s0000-e1.msty"}
    leader.complete()
    leader.complete()
    deleted = [path for _, path in leader.events("delete")]
    assert "state/totals/a0001/s0001-e1.msty" in deleted
    assert "state/totals/a0001/s0000-e1.msty" not in deleted
    leader.coordinator.requests.savepoints.pinned = set
    leader.complete()
    assert ("delete", "state/totals/a0001/s0000-e1.msty") in leader.events("delete")


def test_the_end_of_the_job_is_the_end_of_the_request(lead: Lead) -> None:
    leader = lead().run()
    answer = ask(leader)
    leader.coordinator.cancel()
    assert "'there' was not written: the job is over (cancelled)" in str(answer.error)
    late = Answer()
    leader.coordinator.savepoint("late", late)
    assert "the job is over (cancelled)" in str(late.error)


def test_a_job_that_ends_by_itself_waits_for_its_savepoints(lead: Lead) -> None:
    leader = lead().run()
    leader.end_all()
    leader.pass_time(0.0)
    (final,) = {message.epoch for message in leader.world.sent(Trigger)}
    leader.acknowledge(final, files=())
    leader.world.background.drain()
    answer = Answer()
    # Asked for when there will be no further epoch: the final one has to do.
    leader.coordinator.savepoint("there", answer)
    leader.confirm(final)
    assert leader.status == "running"
    for _ in range(3):
        settle(leader)
    assert answer.told == [None]
    assert read_savepoint(leader.world.places["there"], "there").epoch == final
    assert leader.status == "finished"


# ---------------------------------------------------------------- starting from one


@pytest.fixture
def saved(lead: Lead) -> tuple[Any, int]:
    """A world with a savepoint in it and an empty directory, and the savepoint's epoch."""
    leader = lead().run()
    leader.complete(files=())
    epoch = save(leader)
    leader.coordinator.cancel()
    leader.world.background.drain()
    leader.world.storage._files.clear()
    leader.world.forget()
    return leader.world, epoch


def test_a_job_from_a_savepoint_has_a_lineage_of_its_own(
    saved: tuple[Any, int], lead: Lead
) -> None:
    leader = lead("B", origin="there").start()
    (deployment,) = leader.cluster.deployments
    assert deployment.lineage.startswith("lineage-")
    begin = read_history(leader.world.storage).last_begin
    assert begin is not None
    assert (begin.lineage, begin.origin) == (deployment.lineage, "there")
    assert begin.restored_from is None
    assert all(state.rewrite and state.origin == "there" for state in deployment.restored.values())
    leader.ready()
    leader.complete()
    leader.lose_worker()
    leader.restart()
    assert leader.cluster.deployments[-1].lineage == deployment.lineage
    assert leader.attempt == 2


def test_epochs_go_on_counting_above_that_of_the_savepoint(
    saved: tuple[Any, int], lead: Lead
) -> None:
    leader = lead("B", origin="there").run()
    assert leader.complete() == saved[1] + 1


def test_while_there_is_no_epoch_every_attempt_and_leader_starts_from_the_savepoint(
    saved: tuple[Any, int], lead: Lead
) -> None:
    first = lead("B", origin="there").run()
    first.lose_worker()
    first.restart()
    assert {s.origin for s in first.cluster.deployments[-1].restored.values()} == {"there"}
    second = lead("C", restore="latest").start()
    assert {s.origin for s in second.cluster.deployments[-1].restored.values()} == {"there"}
    lineages = {d.lineage for d in first.cluster.deployments + second.cluster.deployments}
    assert len(lineages) == 1
    second.ready()
    second.complete(files=())
    third = lead("D", restore="latest").start()
    assert {s.origin for s in third.cluster.deployments[-1].restored.values()} == {None}


def test_a_directory_with_a_history_is_refused(saved: tuple[Any, int], lead: Lead) -> None:
    lead("B").run().complete()
    leader = lead("C", origin="there").start()
    assert isinstance(leader.coordinator.error, HistoryExistsError)
    assert 'restore="latest"' in str(leader.coordinator.error)


def test_what_is_not_there_is_refused(lead: Lead) -> None:
    leader = lead(origin="nowhere").start()
    assert leader.status == "failed"
    assert isinstance(leader.coordinator.error, RestoreError)
    assert "no savepoint at 'nowhere'" in str(leader.coordinator.error)


def test_a_damaged_savepoint_is_no_reason_to_start_from_nothing(
    saved: tuple[Any, int], lead: Lead
) -> None:
    leader = lead("B", origin="there", fall_back=True).run()
    error = DamagedFileError("state/x of the savepoint is damaged")
    from mainstay.runtime.messages import WorkerFailed

    leader.coordinator.receive(WorkerFailed(leader.attempt, 0, error))
    assert leader.status == "failed"


def test_a_retained_epoch_of_another_job_will_do_as_well(lead: Lead) -> None:
    leader = lead().run()
    leader.complete(files=())
    leader.complete(files=())
    leader.coordinator.cancel()
    leader.world.background.drain()
    leader.world.places["other"] = MemoryStorage()
    leader.world.places["other"]._files.update(leader.world.storage._files)
    leader.world.storage._files.clear()
    other = lead("B", origin="other#1").run()
    assert other.status == "running"
    assert other.complete() == 2
    leader.world.storage._files.clear()
    latest = lead("C", origin="other").run()
    assert latest.complete() == 3
    leader.world.storage._files.clear()
    missing = lead("D", origin="other#7").start()
    assert "there is no epoch 7 in the snapshots at 'other'" in str(missing.coordinator.error)
