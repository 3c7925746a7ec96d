"""Restarts: whether and when a failed job is started again."""

from __future__ import annotations

from collections import deque

from mainstay.errors import (
    FencedError,
    JobFailedError,
    MainstayError,
    RestoreError,
    SourceError,
    UserFunctionError,
    named,
)
from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.options import RestartOptions

NOT_HEALED = "no restart heals this"
SAME_FAILURES = 3
"""How many failures in a row by the same mistake of the author show that it stays."""
MISTAKES = (
    "AttributeError",
    "ModuleNotFoundError",
    "NameError",
    "NotImplementedError",
    "SyntaxError",
    "TypeError",
    "UnboundLocalError",
)
"""What code raises that is wrong, and goes on to be. Anything else may be of the world outside."""
_SHOWN_AS_IT_IS = (UserFunctionError, JobFailedError, RestoreError, FencedError, SourceError)
"""Errors that say enough by themselves; others are given the job's name."""


class RestartStrategy:
    """Waits longer after each failure in a row, and gives up on too many within a window.

    Progress (a completed epoch with rows in it) makes the wait short again; the window forgets by
    time alone. A mistake in the author's code that is met again and again without progress, at the
    same line and with the same words, ends the job before that.
    """

    def __init__(self, options: RestartOptions) -> None:
        self._options = options
        self._failures: deque[float] = deque()
        self._in_a_row = 0
        self._mistake = ""
        self._met = 0

    def on_failure(self, now: float, error: Exception | None = None) -> float | None:
        """Seconds to wait before the next attempt; None when there must not be one."""
        options = self._options
        self._meet(_mistake_of(error))
        while self._failures and now - self._failures[0] > options.window_s:
            self._failures.popleft()
        self._failures.append(now)
        if len(self._failures) > options.max_failures or self._stays:
            return None
        wait = options.backoff_s * 2.0 ** min(self._in_a_row, 32)
        self._in_a_row += 1
        return min(wait, options.max_backoff_s)

    def _meet(self, mistake: str) -> None:
        self._met = self._met + 1 if mistake and mistake == self._mistake else 1
        self._mistake = mistake

    @property
    def _stays(self) -> bool:
        return bool(self._mistake) and self._met >= SAME_FAILURES

    @property
    def why_not_again(self) -> str:
        """Why there must not be another attempt, once ``on_failure`` has said so."""
        options = self._options
        if not options.max_failures:
            heals = "" if self._mistake else " (restart=Restart() gives it some)"
            return f"the job has no restarts{heals}"
        if len(self._failures) <= options.max_failures:
            return f"the same line has raised the same error {self._met} times in a row"
        return (
            f"{len(self._failures)} failures within {options.window_s:g} s are more than the "
            f"{options.max_failures} of its restart strategy"
        )

    @property
    def has_failed(self) -> bool:
        """Whether there was a failure since the last progress."""
        return self._in_a_row > 0

    def on_progress(self) -> None:
        self._in_a_row = 0
        self._mistake = ""


class Restarts:
    """The next attempt of a failed job: whether there is one, and when."""

    def __init__(self, options: RestartOptions, claims: Claims) -> None:
        self.at: float | None = None
        """When the next attempt is due; None if none is awaited."""
        self.why_not_again = NOT_HEALED
        self._strategy = RestartStrategy(options)
        self._claims = claims

    def after(self, error: Exception, now: float, *, may_heal: bool) -> float | None:
        """Plan the attempt that follows a failure; None, and why, if there must not be one."""
        self.why_not_again = NOT_HEALED
        if not may_heal:
            return None
        wait = self._strategy.on_failure(now, error)
        if wait is None:
            self.why_not_again = self._strategy.why_not_again
            return None
        self.at = now + wait
        return self.at

    def take_due(self, now: float) -> bool:
        """Whether the next attempt is to begin now; true once."""
        is_due = self._is_due(now)
        if is_due:
            self.at = None
        return is_due

    def _is_due(self, now: float) -> bool:
        # A claim under way may add an epoch to the log: where to restart is not known before.
        return self.at is not None and now >= self.at and self._claims.is_settled

    def deadline(self) -> float | None:
        return self.at if self._claims.is_settled else None

    @property
    def have_failed(self) -> bool:
        """Whether there was a failure since the last progress."""
        return self._strategy.has_failed

    def on_progress(self) -> None:
        self._strategy.on_progress()


def _mistake_of(error: Exception | None) -> str:
    """What tells a mistake in the author's code from another; empty where there is none."""
    if not isinstance(error, UserFunctionError):
        return ""
    if error.summary.partition(":")[0] not in MISTAKES:
        return ""
    return f"{error.uid}\n{error.user_traceback}"


def is_healed_by_restart(error: Exception, *, is_first: bool) -> bool:
    """Whether another attempt may succeed; ``is_first``: nothing says that the job ever worked."""
    if not isinstance(error, MainstayError):
        return True
    return not (error.is_final or (is_first and error.is_final_at_start))


def is_of_process(error: Exception) -> bool:
    """Whether it lies with this process alone, so that another one may run the job on."""
    cause = error.original if isinstance(error, JobFailedError) and error.original else error
    return isinstance(cause, MainstayError) and cause.is_of_process


def error_elsewhere(job: str, reason: str) -> Exception:
    """What a job has failed with under another leader, for people."""
    why = reason or "it has not said why"
    return JobFailedError(f"job {job!r} has failed in the process that led it before: {why}")


def error_of_job(job: str, error: Exception) -> Exception:
    """What a job has failed with, for people: an error that names the job."""
    if isinstance(error, _SHOWN_AS_IT_IS):
        return error
    name = named(error)
    failed = JobFailedError(f"job {job!r} failed: {name}")
    failed.__cause__ = failed.original = error
    return failed
