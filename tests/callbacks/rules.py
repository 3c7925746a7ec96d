"""What has to come of a callback that raises, by rule: by the kind and by the error alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from mainstay.errors import JobFailedError, MainstayError, UserFunctionError
from tests.callbacks.conducts import ALWAYS, Conduct
from tests.callbacks.kind import AT_ONCE, RETRIED, TOLD, Kind
from tests.callbacks.rows import ROWS
from tests.callbacks.running import Outcome, run

RESTARTS = 2


def check(
    kind: Kind, conduct: Conduct, folder: Path, drive: str = "embedded", session: Any = None
) -> None:
    """Whether all rules hold of a callback that raises a few times, and of one that always does."""
    where = {"drive": drive, "session": session}
    few = run(kind, folder / "few", conduct.name, 1, max_failures=RESTARTS, **where)
    if kind.how == AT_ONCE:
        ends_at_once(kind, conduct, few)
    else:
        heals(kind, conduct, few)
    if kind.how == TOLD or (kind.how == RETRIED and not conduct.is_mistake):
        return
    most = 1 if kind.how == AT_ONCE else 2
    always = run(kind, folder / "always", conduct.name, ALWAYS, max_failures=1, **where)
    fails(kind, conduct, always, most)


def heals(kind: Kind, conduct: Conduct, seen: Outcome) -> None:
    """It works after a while: nothing is lost or doubled, and each failure was told."""
    assert seen.status == "finished", seen.shown
    wanted = Counter(tuple(row) for row in kind.expected(ROWS))
    assert seen.rows == wanted, (seen.rows - wanted, wanted - seen.rows)
    if kind.how == TOLD:
        tells(kind, conduct, seen.logged)
        assert seen.attempts == 1
        return
    is_retried = kind.how == RETRIED and not conduct.is_mistake
    assert seen.attempts == (1 if is_retried else 2), seen.failures
    for failure in seen.failures:
        names(kind, conduct, failure)


def ends_at_once(kind: Kind, conduct: Conduct, seen: Outcome) -> None:
    fails(kind, conduct, seen, 1)


def fails(kind: Kind, conduct: Conduct, seen: Outcome, attempts: int) -> None:
    """The restart strategy was followed to its end, and ``wait`` says why the job failed."""
    assert seen.status == "failed", seen
    assert seen.attempts == attempts, seen.failures
    assert isinstance(seen.error, MainstayError)
    names(kind, conduct, seen.failures[-1])
    tells(kind, conduct, seen.shown)
    if kind.uid != "subject":
        assert isinstance(seen.error, JobFailedError) or type(seen.error).__name__ == "SourceError"
        return
    assert isinstance(seen.error, UserFunctionError), repr(seen.error)
    assert (seen.error.uid, seen.error.hook) == (kind.uid, kind.hook)


def names(kind: Kind, conduct: Conduct, failure: Any) -> None:
    """A record of a failure has the place and the author's words."""
    assert failure.operator == kind.uid, failure
    assert failure.subtask in (0, 1), failure
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
    assert f"{kind.uid!r}, subtask " in text, text
    assert conduct.error in text, text
    assert conduct.words in text, text
    assert f"in {kind.frame}" in text, text
    assert "conducts.py" in text, text
    assert "/mainstay/runtime/" not in text, text
