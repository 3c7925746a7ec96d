"""Exit codes: what a supervisor should do about a job that has ended."""

from __future__ import annotations

from mainstay.errors import FencedError, JobFailedError, MainstayError, UserFunctionError
from mainstay.runtime.status import Status

DONE = 0
FAILED = 1
TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h."""
CHANGE_IT = 78
"""EX_CONFIG of sysexits.h."""


def exit_code(status: Status, error: BaseException | None) -> int | None:
    """The code for a job that has ended; None for one that has not."""
    if not status.is_final:
        return None
    if error is None:
        return FAILED if status is Status.FAILED else DONE
    cause = error.original if isinstance(error, JobFailedError) and error.original else error
    if isinstance(cause, UserFunctionError | JobFailedError):
        return FAILED
    if isinstance(cause, FencedError | OSError):
        return TRY_AGAIN
    if isinstance(cause, MainstayError):
        return CHANGE_IT if cause.is_final and not cause.is_of_process else TRY_AGAIN
    return FAILED
