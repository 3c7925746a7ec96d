"""What a job is started from, as its author says it."""

from __future__ import annotations

import os
from typing import Any

from mainstay.errors import GraphError
from mainstay.masking import refuse_login
from mainstay.runtime.options import RestoreOptions
from mainstay.snapshot.storage import absolute
from mainstay.snapshot.store_urls import refuse_torn
from mainstay.spelling import did_you_mean

_STARTS = ("new", "latest", "latest-or-new")


def _origin_of(restore: Any) -> str | None:
    """The place that is meant, where a path or URL was given and not one of the words."""
    if isinstance(restore, os.PathLike):
        restore = os.fspath(restore)
    if not isinstance(restore, str) or restore in _STARTS:
        return None
    refuse_torn(restore, GraphError)
    if "://" in restore:
        return restore
    is_path = any(mark and mark in restore for mark in ("/", os.sep, os.altsep, "~"))
    # Absolute, because workers may be started in another directory.
    return absolute(restore) if is_path else None


def restore_options(restore: Any, allow_dropped: Any, fall_back: bool) -> RestoreOptions:
    """What was given as ``restore=`` and what goes with it."""
    origin = _origin_of(restore)
    refuse_login(origin or "", GraphError)
    start = "new" if restore is None or origin is not None else restore
    is_epoch = isinstance(start, int) and not isinstance(start, bool) and start > 0
    if not is_epoch and start not in _STARTS:
        raise GraphError(
            f'restore={restore!r} is unknown. Use "latest", "latest-or-new", the number of an '
            'epoch, the path of a savepoint ("./folder"), or leave it out to start fresh.'
            f"{did_you_mean(restore, _STARTS)}"
        )
    is_list = isinstance(allow_dropped, list | tuple | set | frozenset)
    if not is_list or not all(isinstance(name, str) and "." in name for name in allow_dropped):
        raise GraphError(
            f"allow_dropped={allow_dropped!r} must be a list of names, each an operator and a "
            'state, and for a field of its values that, too: allow_dropped=["totals.total", '
            '"totals.last.note"].'
        )
    return RestoreOptions(start, frozenset(allow_dropped), fall_back, origin)
