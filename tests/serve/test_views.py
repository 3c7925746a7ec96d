"""The contract of a view of a job: the same for one that runs and for a directory alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.errors import GraphError, RestoreError, SqlError, StateTypeError
from mainstay.serve.moments import moment_of
from mainstay.serve.refusals import RefusedError
from mainstay.serve.requests import QueryRequest, SqlRequest
from mainstay.serve.running import RunningView
from mainstay.serve.stored import StoredView
from mainstay.serve.view import JobView
from tests.unit.drive.test_embedded import HALF, KEYS, ROWS


@pytest.fixture(params=["running", "stored"])
def view(request: pytest.FixtureRequest) -> JobView:
    if request.param == "running":
        job = request.getfixturevalue("job")
        return RunningView(job, str(request.getfixturevalue("directory")))
    return StoredView(str(request.getfixturevalue("finished_directory")))


def rows_of(view: JobView) -> int:
    return HALF if view.is_live else ROWS


def total_of(view: JobView, key: int) -> int:
    return sum(range(key, rows_of(view), KEYS))


def ask(view: JobView, state: str = "sums.total", most: int = 100, **asked: Any) -> Any:
    answer = view.query(QueryRequest(states=[state], **asked), most)[state]
    return answer.table, moment_of(answer)


# ---------------------------------------------------------------- now


def test_a_job_is_named_with_its_status_and_a_verdict_in_words(view: JobView) -> None:
    job = view.job()
    assert job.name == "numbers"
    assert job.is_live is view.is_live
    assert job.status == ("running" if view.is_live else "finished")
    assert job.verdict.is_well
    assert job.verdict.headline.endswith(".")
    assert job.max_parallelism == 128
    assert job.parallelism == 2
    assert job.attempt == 1


def test_job_and_tasks_can_be_had_of_one_moment(view: JobView) -> None:
    job, tasks = view.now()
    rows = [each.rows for each in tasks.tasks if each.task == "numbers"]
    assert rows == ([] if job.rows_in is None else [job.rows_in])


def test_its_epoch_is_the_last_complete_one(view: JobView) -> None:
    complete = [each for each in view.epochs(1000) if each.status == "complete"]
    job = view.job()
    assert job.epoch is not None
    assert job.epoch >= complete[-1].epoch
    assert job.last_epoch_at is not None
    assert job.started_at is not None
    assert job.started_at <= job.last_epoch_at <= job.at


def test_the_kept_epochs_are_those_that_can_be_asked_for(view: JobView) -> None:
    kept = view.kept_epochs()
    assert kept == sorted(kept)
    assert kept
    for epoch in kept[-1:] if view.is_live else kept:
        assert ask(view, epoch=epoch)[1].epoch == epoch
    if not view.is_live:
        assert kept == [each.epoch for each in view.epochs(1000) if each.is_kept]


def test_operators_are_named_with_their_states(view: JobView) -> None:
    graph = view.graph()
    assert {each.uid for each in graph.operators} == {"numbers", "sums", "out"}
    sums = next(each for each in graph.operators if each.uid == "sums")
    assert (sums.kind, sums.states, sums.parallelism) == ("keyed", ["total"], 2)


def test_the_edges_of_the_graph_are_known_whether_the_job_runs_or_not(view: JobView) -> None:
    edges = {(each.sender, each.receiver): each.kind for each in view.graph().edges}
    assert edges == {("numbers", "sums"): "key", ("sums", "out"): "forward"}
    assert [each.operators for each in view.graph().tasks] == [["numbers"], ["sums", "out"]]


def test_what_needs_a_running_job_is_empty_where_none_runs(view: JobView) -> None:
    assert bool(view.tasks().tasks) is view.is_live
    assert view.tasks().is_live is view.graph().is_live is view.is_live
    assert (view.job().rows_in is not None) is view.is_live
    assert view.health().is_ready is view.is_live


# ---------------------------------------------------------------- what has happened


def test_epochs_come_oldest_first_and_by_pages(view: JobView) -> None:
    # A running job goes on meanwhile, and forgets the oldest.
    numbers = [each.epoch for each in view.epochs(20)]
    assert numbers == sorted(set(numbers))
    older = [each.epoch for each in view.epochs(len(numbers) - 1, before=numbers[-1])]
    assert older == numbers[:-1]
    assert [each.epoch for each in view.epochs(1, before=numbers[-1] + 1)] == numbers[-1:]
    assert view.epochs(0) == view.epochs(20, before=1) == []


def test_the_newest_complete_epochs_are_kept_and_older_ones_are_not(view: JobView) -> None:
    complete = [each for each in view.epochs(1000) if each.status == "complete"]
    kept = [each.epoch for each in complete if each.is_kept]
    assert 1 <= len(kept) <= 3
    assert kept[-1] == complete[-1].epoch


def test_an_epoch_can_be_looked_at_by_itself(view: JobView) -> None:
    wanted = next(each for each in view.epochs(20) if each.status == "complete")
    found = view.epoch(wanted.epoch)
    assert (found.epoch, found.begun_at, found.size_bytes) == (
        wanted.epoch,
        wanted.begun_at,
        wanted.size_bytes,
    )
    with pytest.raises(RefusedError, match=r"Known are \d+ to"):
        view.epoch(10**6)


def test_attempts_failures_and_the_timeline_tell_one_story(view: JobView) -> None:
    assert [each.attempt for each in view.attempts()] == [1]
    assert view.failures() == []
    assert view.recoveries() == []
    kinds = {each.kind for each in view.timeline()}
    assert kinds == {"attempt", "leader"} | (set() if view.is_live else {"end"})
    times = [each.at for each in view.timeline()]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    assert (view.attempts()[0].ended_at is None) is view.is_live


# ---------------------------------------------------------------- state


def test_states_are_listed_with_their_types(view: JobView) -> None:
    states = {each.name: each for each in view.states()}
    total = states["sums.total"]
    assert (total.kind, total.key_type, total.value_type) == ("reducing", "long", "long")
    assert total.key_names == ["k"]


def test_keys_are_looked_up_in_the_last_epoch(view: JobView) -> None:
    table, moment = ask(view, keys=[3, 10**6])
    assert table.column("total").to_pylist() == [total_of(view, 3)]
    assert moment.level == "committed"
    assert moment.attempt == 1
    assert moment.age_s >= 0


def test_a_scan_is_bounded(view: JobView) -> None:
    table, _ = ask(view, most=2)
    assert table.num_rows == 3  # one more, to know that there are more
    whole, _ = ask(view)
    assert whole.num_rows == KEYS


def test_a_statement_is_run_over_states(view: JobView) -> None:
    pytest.importorskip("duckdb")
    table = view.sql(SqlRequest(statement="select count(*) as n from sums.total"), 10)
    assert table.to_pylist() == [{"n": KEYS}]
    with pytest.raises(SqlError, match="one SELECT"):
        view.sql(SqlRequest(statement="copy (select 1) to '/tmp/stolen.csv'"), 10)


def test_a_statement_that_takes_too_long_is_stopped(view: JobView) -> None:
    pytest.importorskip("duckdb")
    endless = "select sum(a.range * b.range) from range(100000000) a, range(100000000) b"
    with pytest.raises(SqlError, match=r"was stopped after 0\.2 s"):
        view.sql(SqlRequest(statement=endless, timeout_s=0.2), 10)


def test_key_groups_add_up_to_what_is_stored(view: JobView) -> None:
    found = view.key_groups("sums")
    assert len(found.groups) == 128
    assert sum(each.rows for each in found.groups) >= KEYS
    assert all(bool(each.rows) == bool(each.size_bytes) for each in found.groups)
    assert {each.subtask for each in found.groups} == {0, 1}
    assert view.key_groups("numbers").groups == []


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda view: ask(view, "sums.totl"), RestoreError, "sums.total"),
        (lambda view: ask(view, epoch=10**6), RestoreError, "kept"),
        (lambda view: ask(view, keys=["three"]), StateTypeError, "no long"),
        (lambda view: ask(view, keys=[[1, 2]]), StateTypeError, "each of"),
        (lambda view: ask(view, "numbers.splits", keys=[1]), GraphError, "no key"),
        (lambda view: view.key_groups("sum"), RestoreError, "sums"),
        (lambda view: view.states(10**6), RestoreError, "kept"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(
    view: JobView, wrong: Callable[[JobView], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        wrong(view)


def test_an_answer_waits_for_an_epoch_no_longer_than_it_may(view: JobView) -> None:
    latest = view.job().epoch
    ask(view, after={"epoch": latest})
    with pytest.raises(TimeoutError, match="has come up to 1000000 within"):
        ask(view, after={"epoch": 10**6}, timeout_s=0.05)


def test_a_directory_without_a_job_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match="there are no snapshots at"):
        StoredView(str(tmp_path))


def test_a_job_of_a_directory_can_be_asked_for_nothing(finished_directory: Path) -> None:
    view = StoredView(str(finished_directory))
    for asked in (
        lambda: view.savepoint("/tmp/s", 1.0),
        lambda: view.stop(None, drain=False, timeout_s=1.0),
        lambda: view.rescale(3, 1.0),
        lambda: view.cancel(1.0),
    ):
        with pytest.raises(RefusedError, match="no job runs here") as refused:
            asked()
        assert refused.value.status == 409
