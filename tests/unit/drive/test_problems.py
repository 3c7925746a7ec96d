"""What is logged of a job's problems."""

from __future__ import annotations

import pytest

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
