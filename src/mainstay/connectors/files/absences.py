"""Since when files that a source has taken have been gone, as far as this process has seen it.

A file that is missing from a listing need not be deleted: a disk may not be mounted, a server not
answer. So one counts as gone for good only after a while, and only if other files are found where
it was.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Sequence

FORGET_S = 3600.0
"""How long a file has to be gone before its path may be used for another."""


class Absences:
    """What is missing below the paths that a source was given."""

    def __init__(self, paths: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._roots = [_root(path) for path in paths]
        self._clock = clock
        self._gone_since: dict[str, float] = {}

    def note(self, found: Collection[str], seen: frozenset[str]) -> None:
        """Take note of a listing. Nothing is missing from a root that is empty altogether."""
        now = self._clock()
        alive = [root for root in self._roots if any(_is_below(path, root) for path in found)]
        gone = [p for p in seen.difference(found) if any(_is_below(p, root) for root in alive)]
        self._gone_since = {path: self._gone_since.get(path, now) for path in gone}

    def long_gone(self) -> list[str]:
        """The files that have been missing from every listing for a while."""
        now = self._clock()
        return [path for path, since in self._gone_since.items() if now - since >= FORGET_S]


def _root(path: str) -> str:
    """What all files of a path are below: the path itself, or the folder before a wildcard."""
    plain, *rest = re.split(r"[*?[]", path, maxsplit=1)
    return (os.path.dirname(plain) if rest else path).rstrip(os.sep)


def _is_below(path: str, root: str) -> bool:
    return not root or path == root or path.startswith(root + os.sep)
