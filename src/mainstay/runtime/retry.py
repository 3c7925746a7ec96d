"""Trying again: what waits for something outside, how long it waits, and what can be seen of it.

Whether a target that is away comes back cannot be known. So it is tried for ever, with
waits that grow up to half a minute. What is in trouble is a ``Problem`` for people to see. Only
an error that says what somebody has to change is worth ending an attempt for: a connector's own,
or that of a path which cannot be used as it is.
"""

from __future__ import annotations

import errno

from mainstay.errors import MainstayError, SnapshotStorageError, named
from mainstay.runtime.status import Problem

RETRY_S = 0.5
LONGEST_S = 30.0
SLOW_S = 10.0
"""After this long without an answer it is a problem, even if nothing has failed."""


WRONG_PATHS = frozenset(
    {
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.EILSEQ,
        errno.EACCES,
        errno.EPERM,
    }
)
"""What the system says of a path that is wrong, rather than away or full."""


WRONG_CODE = (NameError, AttributeError, TypeError, ImportError, NotImplementedError)
"""What a connector raises whose code is wrong. No target's coming back makes it right."""


def may_heal(error: Exception) -> bool:
    """Whether trying again may help. A connector's own ``MainstayError`` says that it will not."""
    if isinstance(error, WRONG_CODE):
        return False
    if isinstance(error, OSError) and error.filename is not None:
        return error.errno not in WRONG_PATHS
    return not isinstance(error, MainstayError) or isinstance(error, SnapshotStorageError)


class Retry:
    """Something that is done again and again until it works."""

    __slots__ = ("at", "error", "failures", "since")

    def __init__(self) -> None:
        self.failures = 0
        self.at: float | None = None
        """When to try again; None while nothing has failed."""
        self.since: float | None = None
        """When it was first tried; None while there is nothing to do."""
        self.error: Exception | None = None
        """The last failure; None while nothing has failed."""

    @property
    def is_waiting(self) -> bool:
        return self.at is not None

    def began(self, now: float) -> None:
        if self.since is None:
            self.since = now

    def failed(self, now: float, error: Exception) -> None:
        self.began(now)
        self.failures += 1
        self.error = error
        self.at = now + min(RETRY_S * 2.0 ** min(self.failures, 16), LONGEST_S)

    def succeeded(self) -> None:
        self.failures, self.at, self.since, self.error = 0, None, None, None

    def is_due(self, now: float) -> bool:
        """Whether the wait is over; it is asked once."""
        if self.at is None or now < self.at:
            return False
        self.at = None
        return True

    def problem(self, subject: str, what: str, now: float) -> Problem | None:
        """What is wrong: it has failed, or there was no answer for long; None if nothing is."""
        if self.since is None or (self.error is None and now - self.since < SLOW_S):
            return None
        error = "" if self.error is None else named(self.error)
        return Problem(subject, what, error, now - self.since)
