"""Figures of subtasks: parts of the time that add up, rates, and what has left a task."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Rows
from mainstay.runtime.messages import StateReads, TaskMetrics
from mainstay.runtime.spec import JobSpec
from mainstay.runtime.watermarks import END_US
from mainstay.serve.documents import SubtaskDocument
from mainstay.serve.figures import figures_of
from mainstay.serve.shape import graph_of


@pytest.fixture(scope="module")
def spec() -> JobSpec:
    env = ms.Environment(spark="embedded", parallelism=1)
    rows = env.source(Rows("k long", [(1,)]), uid="in").filter(lambda row: True, uid="some")
    kept = rows.key_by("k").reduce(lambda a, b: a, uid="last")
    kept.sink(Memory(), uid="out")
    rows.broadcast().map(lambda row: row, "k long", uid="all").sink(Memory(), uid="copy")
    return env.plan()


def one(spec: JobSpec, now: TaskMetrics, before: TaskMetrics | None = None) -> SubtaskDocument:
    task = spec.tasks[0].id
    earlier = {} if before is None else {(task, 0): before}
    return figures_of(spec, {(task, 0): now}, earlier, is_running=True)[0].subtasks[0]


def test_parts_of_the_time_are_those_of_the_last_seconds(spec: JobSpec) -> None:
    before = TaskMetrics(rows=100, lasted_s=10.0, busy_s=9.0, held_back_s=0.5)
    now = TaskMetrics(rows=600, lasted_s=15.0, busy_s=10.0, held_back_s=3.5)
    found = one(spec, now, before)
    assert (found.busy, found.backpressured, found.idle) == pytest.approx((0.2, 0.6, 0.2))
    assert found.rows_per_s == 100.0
    totals = (found.busy_total_s, found.backpressured_total_s, found.idle_total_s)
    assert totals == pytest.approx((10.0, 3.5, 1.5))


@pytest.mark.parametrize("before", [None, TaskMetrics(rows=50, lasted_s=2.0)])
def test_after_one_report_they_are_those_since_the_beginning(
    spec: JobSpec, before: TaskMetrics | None
) -> None:
    found = one(spec, TaskMetrics(rows=50, lasted_s=2.0, busy_s=1.0), before)
    assert (found.rows_per_s, found.busy, found.idle) == (25.0, 0.5, 0.5)


def test_a_subtask_that_has_not_lasted_is_idle(spec: JobSpec) -> None:
    found = one(spec, TaskMetrics())
    assert (found.busy, found.backpressured, found.idle, found.rows_per_s) == (0, 0, 1, 0)


def test_what_does_not_run_has_counts_and_no_rates(spec: JobSpec) -> None:
    task = spec.tasks[0].id
    metrics = {(task, 0): TaskMetrics(rows=50, lasted_s=2.0, busy_s=1.0)}
    found = figures_of(spec, metrics, {}, is_running=False)[0]
    assert (found.rows, found.rows_per_s, found.busy) == (50, 0.0, 0.0)


def test_parts_never_add_up_to_more_than_all_of_the_time(spec: JobSpec) -> None:
    found = one(spec, TaskMetrics(lasted_s=1.0, busy_s=0.9, held_back_s=0.4))
    assert found.busy + found.backpressured + found.idle == pytest.approx(1.0)
    assert found.backpressured == pytest.approx(0.1)
    assert found.idle_total_s == 0.0


def test_what_leaves_a_task_goes_to_others_and_into_sinks(spec: JobSpec) -> None:
    by_sink: dict[str, Any] = {each.id: each for each in spec.tasks}
    for id, task in by_sink.items():
        counts = {each.uid: (10, 7) for each in task.operators}
        metrics = {(id, 0): TaskMetrics(lasted_s=1.0, counts=counts)}
        figures = figures_of(spec, metrics, {}, is_running=True)
        found = next(each for each in figures if each.task == id).subtasks[0]
        assert found.emitted_per_s == (10.0 if task.has_sink else 7.0)


@pytest.mark.parametrize(("time_us", "at"), [(None, None), (1_500_000, 1.5), (END_US, None)])
def test_a_watermark_is_a_time_unless_it_is_the_end(
    spec: JobSpec, time_us: int | None, at: float | None
) -> None:
    assert one(spec, TaskMetrics(watermark_us=time_us)).watermark_at == at


def test_reads_of_remote_state_have_a_ratio_when_there_are_any(spec: JobSpec) -> None:
    none = one(spec, TaskMetrics(state_reads=StateReads()))
    some = one(spec, TaskMetrics(state_reads=StateReads(hits=3, misses=1)))
    assert none.state_reads is not None
    assert none.state_reads.hit_ratio is None
    assert some.state_reads is not None
    assert some.state_reads.hit_ratio == 0.75


# ---------------------------------------------------------------- the graph


def test_edges_say_how_rows_go_within_chains_and_between_them(spec: JobSpec) -> None:
    edges = {(e.sender, e.receiver): e.kind for e in graph_of(spec).edges}
    assert edges["in", "some"] == "forward"
    assert edges["some", "all"] == "broadcast"
    assert edges["all", "copy"] == "forward"
    assert "key" in edges.values()


def test_the_end_of_a_loop_leads_back_to_its_head() -> None:
    env = ms.Environment(spark="embedded", parallelism=1)
    rows = env.source(Rows("n long", [(3,)]), uid="in")

    def body(stream: Any) -> Any:
        less = stream.map(lambda row: (row.n - 1,), "n long", uid="less")
        return less.filter(lambda row: row.n > 0), less.filter(lambda row: row.n <= 0)

    rows.iterate(body, uid="loop").sink(Memory(), uid="out")
    loops = [edge for edge in graph_of(env.plan()).edges if edge.kind == "loop"]
    assert [edge.receiver for edge in loops] == ["loop"]


def test_a_subtask_says_how_long_ago_it_has_reported_while_the_job_runs(spec: JobSpec) -> None:
    task = spec.tasks[0].id
    metrics = {(task, 0): TaskMetrics(rows=1, lasted_s=2.0)}
    for is_running, age_s in ((True, 7.5), (False, None)):
        found = figures_of(spec, metrics, {}, {(task, 0): 7.5}, is_running=is_running)
        assert found[0].subtasks[0].report_age_s == age_s


def test_while_a_subtask_is_silent_its_rate_falls(spec: JobSpec) -> None:
    task = spec.tasks[0].id
    metrics = {(task, 0): TaskMetrics(rows=100, lasted_s=5.0)}
    for age_s, rate in ((0.5, 20.0), (5.0, 10.0), (45.0, 2.0)):
        found = figures_of(spec, metrics, {}, {(task, 0): age_s}, is_running=True)
        assert found[0].subtasks[0].rows_per_s == rate
