"""What a job waits for inside itself, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.coordinator.epochs import PendingEpoch
from mainstay.runtime.coordinator.slowness import LATE_S, LATEST_S, Slowness, silent
from mainstay.runtime.messages import Epoch, TaskMetrics
from mainstay.runtime.spec import JobSpec
from mainstay.testing import rows


class Totals(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        return row


def job(mode: str = "exactly_once", function: Any = None) -> JobSpec:
    env = ms.Environment(parallelism=2, mode=mode)
    (
        env.source(rows("n long", [(1,)]), uid="in")
        .filter(lambda row: True, uid="some")
        .key_by("n")
        .process(function or Totals(), "n long", uid="totals")
        .sink(Memory(), uid="out")
    )
    return env.plan()


def pending(**more: Any) -> PendingEpoch:
    return PendingEpoch(Epoch(12), 100.0, 100.0, 0.0, {("totals", 0), ("totals", 1)}, {}, **more)


SLOW = {
    ("in", 0): TaskMetrics(row_s=0.00001, load=0.1),
    ("totals", 0): TaskMetrics(row_s=0.01, load=1.0, waiting_rows=20),
    ("totals", 1): TaskMetrics(row_s=0.01, load=1.0, waiting_rows=3000),
}


def lines(
    epoch: PendingEpoch, now: float, mode: str = "exactly_once", *, is_halting: bool = False
) -> list[str]:
    found = Slowness(job(mode), 1.0).problems([epoch], SLOW, now, is_halting=is_halting)
    return [str(problem) for problem in found]


def test_an_epoch_that_is_late_says_whom_it_waits_for_and_what_would_help() -> None:
    assert lines(pending(), 100.0 + LATE_S - 0.1) == []
    assert lines(pending(), 112.0) == [
        "'totals', subtask 1, has held up epoch 12 for 12 s: it takes 10 ms a row and has 3,000 "
        "rows in line, about 30 s of work. More parallelism or mode='unaligned' would help"
    ]


def test_epochs_that_are_far_apart_may_take_longer() -> None:
    for every_s, late_s in ((10.0, 20.0), (600.0, LATEST_S)):
        slowness = Slowness(job(), every_s)
        assert not slowness.problems([pending()], {}, 100.0 + late_s - 1, is_halting=False)
        assert slowness.problems([pending()], {}, 100.0 + late_s, is_halting=False)
        assert slowness.problems([pending()], {}, 100.0 + LATE_S, is_halting=True)


def test_a_stop_that_waits_for_a_queue_says_what_does_not() -> None:
    (line,) = lines(pending(is_last=True), 110.0)
    assert "has held up the last epoch 12 for 10 s" in line
    assert "job.cancel() does not wait for them" in line
    assert lines(pending(), 110.0, is_halting=True)[0].endswith("epoch can be restored")


def test_a_stop_that_will_overtake_rows_says_when_and_what_becomes_of_them() -> None:
    (line,) = lines(pending(is_last=True, overtake_at=105.0), 102.0)
    assert "has held up the last epoch 12 for 2 s" in line
    assert line.endswith(
        "In 3 s they are stored with the epoch instead, and processed first when the job goes on"
    )
    (line,) = lines(pending(is_last=True, is_unaligned=True), 106.0)
    assert line.endswith("They are being stored with the epoch")


def test_rows_that_no_epoch_stores_are_named_with_the_way_out() -> None:
    epoch = PendingEpoch(Epoch(12), 100.0, 100.0, 0.0, {("in", 0)}, {}, is_last=True)
    epoch.is_unaligned = True
    slow = {("in", 0): TaskMetrics(row_s=0.01, load=1.0, waiting_rows=300)}
    (found,) = Slowness(job(), 1.0).problems([epoch], slow, 110.0, is_halting=True)
    assert "Rows that come from a source are not stored with an epoch. job.cancel()" in str(found)


def test_an_unaligned_job_is_not_told_to_be_one() -> None:
    (line,) = lines(pending(overtake_at=500.0), 110.0, "unaligned")
    assert line.endswith("A shorter alignment_timeout or more parallelism would help")
    (line,) = lines(pending(), 110.0, "unaligned")
    assert line.endswith("of work. More parallelism would help")


def test_an_epoch_that_waits_for_no_rows_names_who_has_not_answered() -> None:
    found = Slowness(job(), 1.0).problems([pending()], {}, 130.0, is_halting=False)
    assert [str(problem) for problem in found] == [
        "epoch 12 has waited for 'totals', subtask 0 and 1 more for 30 s"
    ]


def test_a_subtask_is_not_blamed_for_a_line_that_is_done_at_once() -> None:
    epoch = PendingEpoch(Epoch(12), 100.0, 100.0, 0.0, {("totals", 0), ("in", 1)}, {})
    quick = {("totals", 0): TaskMetrics(row_s=0.001, load=0.1, waiting_rows=11)}
    (found,) = Slowness(job(), 1.0).problems([epoch], quick, 130.0, is_halting=False)
    assert str(found).startswith("epoch 12 has waited for 'some', subtask 1 and 1 more"), "upstream"


def test_a_function_that_is_slow_stays_named_while_it_holds_an_epoch_up() -> None:
    slowness = Slowness(job(), 1.0)
    assert slowness.problems([], SLOW, 50.0, is_halting=False) == []
    found = slowness.problems([pending()], SLOW, 112.0, is_halting=False)
    assert [problem.what.split()[1] for problem in found] == ["held", "taken", "taken"]


@pytest.mark.parametrize(
    ("row_s", "said"),
    [(0.0061, "6.1 ms"), (0.0126, "13 ms"), (0.33, "330 ms"), (0.9999, "1000 ms"), (1.5, "1.5 s")],
)
def test_what_a_row_takes_is_told_in_digits(row_s: float, said: str) -> None:
    slow = {("totals", 1): TaskMetrics(row_s=row_s, load=1.0, waiting_rows=3000)}
    (found,) = Slowness(job(), 1.0).problems([pending()], slow, 112.0, is_halting=False)
    assert f"it takes {said} a row" in str(found)


def test_an_epoch_that_is_being_committed_waits_for_nobody() -> None:
    assert lines(pending(is_committing=True), 500.0) == []


def test_a_function_that_is_slow_for_seconds_is_named_until_it_is_no_more() -> None:
    slowness = Slowness(job(), 10.0)
    quick = {("totals", 1): TaskMetrics(row_s=0.00001, load=1.0)}
    idle = {("totals", 1): TaskMetrics(row_s=0.01, load=0.2)}
    assert slowness.problems([], SLOW, 50.0, is_halting=False) == []
    found = slowness.problems([], SLOW, 56.0, is_halting=False)
    assert [str(problem) for problem in found] == [
        f"'totals', subtask {n}, has taken 10 ms a row for 6 s: "
        "rows wait for it; more parallelism would help"
        for n in (0, 1)
    ]
    for other in (quick, idle):
        assert slowness.problems([], other, 60.0, is_halting=False) == []
    assert slowness.problems([], SLOW, 61.0, is_halting=False) == [], "it begins anew"


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((5, 0), ["'totals': 0 rows out of 10 in; does its function lack a yield or a return?"]),
        ((5, 1), []),
        ((0, 0), []),
    ],
)
def test_a_function_that_emits_nothing_is_named(counts: tuple[int, int], said: list[str]) -> None:
    metrics = {("totals", n): TaskMetrics(counts={"totals": counts, "out": (9, 0)}) for n in (0, 1)}
    assert [str(each) for each in silent(job(), metrics)] == said


class Later(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> None:
        ctx.timers.processing_time(ctx.now())

    def on_timer(self, at: Any, ctx: Any) -> Any:
        yield ctx.key


def test_a_function_whose_timers_emit_is_named_without_a_suspicion() -> None:
    metrics = {("totals", 0): TaskMetrics(counts={"totals": (7, 0), "out": (0, 0)})}
    found = silent(job(function=Later()), metrics)
    assert [str(each) for each in found] == ["'totals': 0 rows out of 7 in"]


def test_a_filter_that_emits_nothing_is_named_without_a_suspicion() -> None:
    metrics = {("in", 0): TaskMetrics(counts={"in": (7, 7), "some": (7, 0)})}
    assert [str(each) for each in silent(job(), metrics)] == ["'some': 0 rows out of 7 in"]
