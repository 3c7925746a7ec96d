"""A job that had finished is started again: what is new, what is checked, what is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mainstay.connectors import Rows
from mainstay.errors import DamagedFileError, RestoreError, SourceError
from mainstay.runtime.connector import Split
from mainstay.runtime.messages import AssignSplits, Trigger
from mainstay.runtime.spec import JobSpec
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.history import Finished
from mainstay.snapshot.layout import STATISTICS_PREFIX, manifest_path

Lead = Callable[..., Any]
GIVEN = [("a", 1), ("b", 2)]


def finish(leader: Any, files: tuple[str, ...] = ()) -> int:
    before = len(leader.world.sent(Trigger))
    leader.end_all()
    epoch: int = leader.world.sent(Trigger)[before].epoch
    leader.acknowledge(epoch, files=files)
    leader.world.background.drain()
    leader.confirm(epoch)
    leader.world.background.drain()
    assert leader.status == "finished"
    leader.world.background.drain()
    return epoch


def with_source(job: JobSpec, source: Any) -> JobSpec:
    """The same job, reading another source."""
    tasks = []
    for task in job.tasks:
        operators = (replace(o, source=source) if o.source else o for o in task.operators)
        tasks.append(replace(task, operators=tuple(operators)))
    return replace(job, tasks=tuple(tasks))


@pytest.fixture
def again(lead: Lead) -> Callable[..., Any]:
    """Another leader, after a first one has finished with one epoch before its last."""

    def start(source: Any = None, *, files: tuple[str, ...] = (), **options: Any) -> Any:
        first = lead("A").run()
        first.complete(files=files)
        finish(first, files)
        first.world.forget()
        leader = lead("B", **{"restore": "latest", **options})
        if source is not None:
            leader.job = leader.coordinator.fitting.asked = with_source(leader.job, source)
        return leader

    return start


def more(*rows: tuple[str, int]) -> Rows:
    return Rows("k string, n long", [*GIVEN, *rows], splits=2)


class Away(Rows):
    """Cannot be reached when it is planned."""

    error: Exception = ConnectionError("no answer")

    def plan(self, seen: frozenset[str]) -> Sequence[Split]:
        raise self.error


class Endless(Rows):
    bounded = False


# ---------------------------------------------------------------- nothing new


def test_without_new_input_it_ends_at_once_and_writes_nothing(again: Any) -> None:
    leader = again().start()
    assert leader.status == "finished"
    assert leader.coordinator.error is None
    assert leader.events("launch", "create", "write", "delete") == []


def test_without_new_input_it_says_when_it_finished_and_what_would_be_new(again: Any) -> None:
    leader = again().start()
    end, new = leader.coordinator.chronicle.report
    assert end.startswith("finished at epoch 2 on ")
    assert end.endswith(" UTC; no new input since")
    assert new == "new input of source 'rows' would be rows added at the end of those given to Rows"


def test_without_new_input_the_epochs_that_are_known_are_shown(again: Any) -> None:
    leader = again().start()
    assert leader.outcomes() == [(1, "complete"), (2, "complete")]


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_without_statistics_the_last_epoch_is_shown(again: Any, world: Any, harm: str) -> None:
    leader = again()
    for path in world.storage.list(STATISTICS_PREFIX):
        world.storage._files[path] = b"garbage"
        if harm == "gone":
            del world.storage._files[path]
    leader.start()
    assert leader.outcomes() == [(2, "complete")]


# ---------------------------------------------------------------- something new


def test_new_splits_are_read_on_top_of_the_state(again: Any) -> None:
    leader = again(more(("c", 3))).run()
    (record,) = leader.coordinator.attempts
    assert (record.attempt, record.restored_from) == (2, 2)
    given = [split.id for message in leader.world.sent(AssignSplits) for split in message.splits]
    assert given == ["rows-2-2", "rows-2-3"]
    assert all(message.last for message in leader.world.sent(AssignSplits))
    assert finish(leader) == 3
    assert leader.epochs() == [1, 2, 3]
    assert read_history(leader.world.storage).recent[-1] == Finished(3, 2)


def test_new_input_is_not_forgotten_when_the_attempt_fails_before_its_first_epoch(
    again: Any,
) -> None:
    leader = again(more(("c", 3))).run()
    leader.lose_worker()
    leader.world.forget()
    leader.restart()
    leader.ready()
    given = [split.id for message in leader.world.sent(AssignSplits) for split in message.splits]
    assert given == ["rows-2-2", "rows-2-3"]


def test_new_input_is_not_forgotten_when_the_leader_dies_before_its_first_epoch(
    again: Any, lead: Lead
) -> None:
    source = more(("c", 3))
    again(source).run()
    leader = lead("C", restore="latest")
    leader.job = leader.coordinator.fitting.asked = with_source(leader.job, source)
    leader.world.forget()
    leader.run()
    given = [split.id for message in leader.world.sent(AssignSplits) for split in message.splits]
    assert given == ["rows-2-2", "rows-2-3"]


def test_the_input_of_a_start_does_not_grow_while_it_restarts(again: Any) -> None:
    source = more(("c", 3))
    leader = again(source).run()
    leader.complete(files=())
    source.batch = more(("c", 3), ("d", 4)).batch
    leader.lose_worker()
    leader.world.forget()
    leader.restart()
    leader.ready()
    assert [m.splits for m in leader.world.sent(AssignSplits)] == [(), ()]


def test_a_job_that_was_stopped_plans_its_sources_again(lead: Lead) -> None:
    first = lead("A").run()
    first.complete(files=())
    first.coordinator.cancel()
    first.world.forget()
    leader = lead("B", restore="latest")
    leader.job = leader.coordinator.fitting.asked = with_source(leader.job, more(("c", 3)))
    leader.run()
    given = [split.id for message in leader.world.sent(AssignSplits) for split in message.splits]
    assert given == ["rows-2-2", "rows-2-3"]


def test_a_source_that_does_not_end_any_more_goes_on(again: Any) -> None:
    leader = again(Endless("k string, n long", [*GIVEN, ("c", 3)])).run()
    assert leader.status == "running"
    messages = leader.world.sent(AssignSplits)
    assert [split.id for message in messages for split in message.splits] == ["rows-2-3"]
    assert not any(message.last for message in messages)


def test_a_source_that_cannot_be_reached_is_waited_for_by_an_attempt(again: Any) -> None:
    assert again(Away("k string, n long", GIVEN, splits=2)).start().status == "launching"


# ---------------------------------------------------------------- refusals


def test_a_source_that_cannot_be_planned_fails_the_job_by_name(again: Any) -> None:
    source = Away("k string, n long", GIVEN, splits=2)
    source.error = OSError("no such folder")
    leader = again(source, max_failures=0).start()
    assert isinstance(leader.coordinator.error, SourceError)
    assert "source 'rows' cannot be planned: OSError: no such folder" in str(
        leader.coordinator.error
    )


@pytest.mark.parametrize("added", [[], [("c", 3)]])
def test_rows_that_have_changed_since_they_were_read_are_refused(again: Any, added: Any) -> None:
    source = Rows("k string, n long", [("a", 1), ("b", 3), *added], splits=2)
    leader = again(source).start()
    assert isinstance(leader.coordinator.error, RestoreError)
    assert "source 'rows': 'rows-1-2' has changed since it was read" in str(
        leader.coordinator.error
    )
    assert leader.events("launch", "create") == []


def test_rows_that_are_missing_are_refused(again: Any) -> None:
    leader = again(Rows("k string, n long", GIVEN[:1])).start()
    assert isinstance(leader.coordinator.error, RestoreError)
    assert "was given 1 row, and 2 were read before" in str(leader.coordinator.error)


def test_another_max_parallelism_is_refused_although_nothing_is_new(again: Any) -> None:
    leader = again()
    object.__setattr__(leader.job, "max_parallelism", 256)
    leader.start()
    assert isinstance(leader.coordinator.error, RestoreError)
    assert "max_parallelism=128" in str(leader.coordinator.error)


def test_a_damaged_file_is_refused_although_nothing_is_new(again: Any) -> None:
    leader = again(files=("e2",)).start()
    assert isinstance(leader.coordinator.error, DamagedFileError)
    assert "e2" in str(leader.coordinator.error)


def test_a_damaged_manifest_is_refused_although_nothing_is_new(again: Any, world: Any) -> None:
    leader = again()
    world.storage._files[manifest_path(2, 1)] = b"garbage"
    leader.start()
    assert isinstance(leader.coordinator.error, DamagedFileError)


def test_a_finished_job_with_a_damaged_file_may_fall_back(again: Any) -> None:
    leader = again(files=("e2",), fall_back=True).start()
    assert leader.status == "launching"
    assert leader.coordinator.attempts[-1].restored_from == 1


@pytest.mark.parametrize("restore", ["latest", "latest-or-new", 1])
def test_the_directory_of_a_job_with_another_name_is_refused_with_both_remedies(
    again: Any, restore: str | int
) -> None:
    leader = again(restore=restore)
    leader.coordinator._options = replace(leader.coordinator._options, name="sums")
    leader.start()
    assert isinstance(leader.coordinator.error, RestoreError)
    message = str(leader.coordinator.error)
    assert "the history of job 'words', and this job is 'sums'" in message
    assert "start('words')" in message
    assert "a directory of its own" in message
    assert leader.events("launch", "create") == []


def test_cancelling_while_news_are_looked_for_ends_it(again: Any) -> None:
    leader = again(more(("c", 3)))
    leader.coordinator.start()
    leader.world.background.run_one()
    leader.coordinator.cancel()
    leader.world.background.drain()
    assert leader.status == "cancelled"
    assert leader.events("launch", "create") == []
