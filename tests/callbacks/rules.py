"""What has to come of a callback that raises, by rule: by the kind and by the error alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from mainstay.errors import JobFailedError, MainstayError, SourceError, UserFunctionError
from tests.callbacks import kind as how
from tests.callbacks.conducts import ALWAYS, Conduct
from tests.callbacks.kind import Kind
from tests.callbacks.rows import ROWS
from tests.callbacks.running import Outcome, run

RESTARTS = 2
"""How many failures a job is allowed whose callback raises once."""


def check(
    kind: Kind, conduct: Conduct, folder: Path, drive: str = "embedded", session: Any = None
) -> None:
    """Whether all rules hold of a callback that raises once, and of one that always does."""
    where = {"drive": drive, "session": session}
    once = run(kind, folder / "once", conduct.name, 1, max_failures=RESTARTS, **where)
    if ends_the_job(kind, conduct):
        fails(kind, conduct, once, attempts=1)
        return
    heals(kind, conduct, once)
    if kind.how == how.TOLD:
        return
    if is_retried(kind, conduct):
        waiting = run(
            kind,
            folder / "always",
            conduct.name,
            ALWAYS,
            max_failures=0,
            until_problem=True,
            **where,
        )
        waits(kind, conduct, waiting)
        return
    always = run(kind, folder / "always", conduct.name, ALWAYS, max_failures=1, **where)
    fails(kind, conduct, always, attempts=2)


def is_retried(kind: Kind, conduct: Conduct) -> bool:
    """Whether it is called again in the same attempt, for ever."""
    if kind.how in (how.PLANNED, how.READ):
        return conduct.is_away
    return kind.how in (how.RETRIED, how.RETRIED_BY_DRIVER) and not conduct.is_mistake


def ends_the_job(kind: Kind, conduct: Conduct) -> bool:
    """Whether no restart is tried."""
    if kind.how == how.PLANNED:
        return not conduct.is_away
    return kind.how == how.AT_ONCE or (kind.how == how.RETRIED_BY_DRIVER and conduct.is_mistake)


def heals(kind: Kind, conduct: Conduct, seen: Outcome) -> None:
    """It works after a while: nothing is lost or doubled, and the failure was told."""
    assert seen.status == "finished", seen.shown
    wanted = Counter(tuple(row) for row in kind.expected(ROWS))
    assert seen.rows == wanted, (seen.rows - wanted, wanted - seen.rows)
    if kind.how == how.TOLD:
        tells(kind, conduct, seen.logged)
    is_again = kind.how != how.TOLD and not is_retried(kind, conduct)
    assert seen.attempts == 1 + is_again, seen.failures
    assert len(seen.failures) == is_again
    for failure in seen.failures:
        names(kind, conduct, failure)


def waits(kind: Kind, conduct: Conduct, seen: Outcome) -> None:
    """The job goes on, and says what it waits for."""
    assert seen.status == "cancelled", seen.shown
    assert seen.attempts == 1, seen.failures
    assert repr(kind.uid) in seen.problem, seen.problem
    assert all(each in seen.problem for each in said(kind, conduct)), seen.problem


def fails(kind: Kind, conduct: Conduct, seen: Outcome, attempts: int) -> None:
    """The restart strategy was followed to its end, and ``wait`` says why the job failed."""
    assert seen.status == "failed", seen
    assert seen.attempts == attempts, seen.failures
    assert isinstance(seen.error, MainstayError)
    names(kind, conduct, seen.failures[-1])
    tells(kind, conduct, seen.shown)
    if kind.uid != "subject":
        assert isinstance(seen.error, JobFailedError | SourceError)
        return
    assert isinstance(seen.error, UserFunctionError), repr(seen.error)
    assert (seen.error.uid, seen.error.hook) == (kind.uid, kind.hook)


def names(kind: Kind, conduct: Conduct, failure: Any) -> None:
    """A record of a failure has the place and the author's words."""
    assert failure.operator == kind.uid, failure
    assert failure.subtask in ((None,) if kind.is_of_driver else (0, 1)), failure
    for each in said(kind, conduct):
        assert each in failure.cause, failure
    assert f"in {kind.frame}" in failure.traceback, failure.traceback


def said(kind: Kind, conduct: Conduct) -> tuple[str, str]:
    """What the line of an error has to say."""
    if kind.is_generator and conduct.in_generator:
        return "RuntimeError", conduct.in_generator
    return conduct.error, conduct.words


def tells(kind: Kind, conduct: Conduct, text: str) -> None:
    """A text has the place, the author's words and the author's frames."""
    place = repr(kind.uid) if kind.is_of_driver else f"{kind.uid!r}, subtask "
    for each in (place, conduct.error, conduct.words):
        assert each in text, text
    if kind.shows_frames:
        assert f"in {kind.frame}" in text, text
        assert "conducts.py" in text, text
    assert "/mainstay/runtime/" not in text, text
