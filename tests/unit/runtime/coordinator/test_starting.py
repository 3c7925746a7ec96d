"""Starting a job: afresh or from what is stored, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.errors import (
    EpochGoneError,
    FencedError,
    HistoryExistsError,
    RestoreError,
)
from mainstay.runtime.messages import AssignSplits
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.layout import log_slot
from tests.unit.runtime.coordinator.starting import Lead, with_history


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
    assert str(leader.coordinator.error) == "there is no epoch 9; kept are 1, 2, 3."


def test_an_epoch_that_is_not_kept_any_more_is_refused_with_those_that_are(lead: Lead) -> None:
    leader = lead("old", retain=2).run()
    for _ in range(4):
        leader.complete()
    for fall_back in (False, True):
        again = lead("B", restore=1, retain=2, fall_back=fall_back).start()
        assert isinstance(again.coordinator.error, EpochGoneError)
        message = str(again.coordinator.error)
        assert message.startswith("epoch 1 is not kept any more; kept are 3, 4. Take one of these")
        assert "Snapshots(retain=...)" in message
        assert "savepoint" in message


def test_an_epoch_that_does_not_exist_is_not_refused_with_epochs_that_are_gone(lead: Lead) -> None:
    leader = lead("old", retain=2).run()
    for _ in range(4):
        leader.complete()
    again = lead("B", restore=9, retain=2).start()
    assert str(again.coordinator.error) == "there is no epoch 9; kept are 3, 4."


def test_a_history_of_one_epoch_is_counted_as_one(lead: Lead) -> None:
    lead("old").run().complete()
    assert "(1 epoch)" in str(lead("B").start().coordinator.error)


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
