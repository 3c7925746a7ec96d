"""What is logged of a job's problems."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory, Sequence
from mainstay.drive.problems import ProblemLog
from mainstay.runtime.status import Problem


def away(epoch: int, waited_s: float) -> Problem:
    return Problem("sink 'out'", f"has not confirmed epoch {epoch}", "OSError: away", waited_s)


def test_a_problem_is_logged_when_it_begins_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ProblemLog("totals")
    for problems in ([], [away(3, 1)], [away(3, 20)], [away(4, 43)], []):
        log.update(problems)
    assert caplog.messages == [
        "job 'totals': sink 'out' has not confirmed epoch 3 for 1 s: OSError: away",
        "job 'totals', no longer: sink 'out' has not confirmed epoch 4 for 43 s: OSError: away",
    ]


def late(subtask: int, epoch: int, waited_s: float) -> Problem:
    subject, what = f"'totals', subtask {subtask},", f"has held up epoch {epoch}"
    return Problem(subject, what, "it is slow", waited_s, comes_and_goes=True)


def test_what_comes_and_goes_is_logged_once_and_is_over_when_it_stays_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = iter([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 30.0])
    log = ProblemLog("totals", clock=lambda: next(times))
    slow = Problem("'totals', subtask 1,", "has taken 10 ms a row", "", 6.0, comes_and_goes=True)
    seen = ([late(1, 3, 5)], [], [late(1, 4, 5), slow], [late(1, 5, 7)], [], [late(1, 6, 9)], [])
    for problems in seen:
        log.update(problems)
    assert caplog.messages == [
        "job 'totals': 'totals', subtask 1, has held up epoch 3 for 5 s: it is slow",
        "job 'totals': 'totals', subtask 1, has taken 10 ms a row for 6 s",
        "job 'totals', no longer: 'totals', subtask 1, has held up epoch 6 for 9 s: it is slow",
        "job 'totals', no longer: 'totals', subtask 1, has taken 10 ms a row for 6 s",
    ]


class Forgetful(ms.KeyedProcess):
    """Says nothing of what it counts."""

    seen = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> Any:
        count = (self.seen.get() or 0) + 1
        self.seen.update(count)
        (row.id, count)  # noqa: B018


def test_a_function_that_emitted_nothing_is_logged_at_the_end_of_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstay")
    env = ms.Environment(spark="embedded", parallelism=2, snapshots=ms.Snapshots(tmp_path))
    numbers = env.source(Sequence(0, 50), uid="in")
    numbers.filter(lambda row: row.id < 0, uid="none").map(
        lambda row: row, "id long", uid="never"
    ).sink(Memory(), uid="few")
    keyed = numbers.key_by("id")
    keyed.process(Forgetful(), "id long, n long", uid="totals").sink(Memory(), uid="out")
    assert env.start("silence").wait(30, progress=False) == "finished"
    said = [(r.levelname, r.getMessage()) for r in caplog.records if "rows out" in r.getMessage()]
    assert sorted(said) == [
        ("INFO", "job 'silence', operator 'none': 0 rows out of 50 in"),
        (
            "WARNING",
            "job 'silence', operator 'totals': 0 rows out of 50 in; "
            "does its function lack a yield or a return?",
        ),
    ]
