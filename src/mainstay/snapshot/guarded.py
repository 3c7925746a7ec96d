"""A leader's storage: it deletes nothing once the process does not lead any more.

What a leader has decided to delete may be done much later, by a thread that was frozen in between.
Reading and writing need no guard: what a deposed leader writes has a name of its own, and counts
only by a slot of the commit log.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstay.errors import NotLeadingError
from mainstay.snapshot.passing import PassingStorage
from mainstay.snapshot.storage import Storage

_ASK_EVERY = 1000
"""Files that are deleted together: as many as S3 takes in a request."""


class GuardedStorage(PassingStorage):
    """Passes everything on, and asks before each delete whether this process still leads."""

    def __init__(self, inner: Storage, leads: Callable[[], bool]) -> None:
        super().__init__(inner)
        self._leads = leads

    def delete(self, *paths: str) -> None:
        for first in range(0, len(paths), _ASK_EVERY):
            if not self._leads():
                raise NotLeadingError(
                    f"{paths[first]} is not deleted: this process does not lead any more."
                )
            self._inner.delete(*paths[first : first + _ASK_EVERY])
