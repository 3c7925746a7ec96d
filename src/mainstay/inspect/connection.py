"""Asking the state of a job from outside: by its snapshots, or over HTTP while it runs.

::

    state = ms.connect("./snapshots")
    state.query("totals.total", key="ada").value
    state.query("totals.total", keys=["ada", "bo"], epoch=17).values()
    state.query("totals.total", limit=10).rows()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError
from mainstay.inspect.answers import Answer
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.key_values import ALL_KEYS
from mainstay.inspect.positions import After
from mainstay.inspect.reading import LATEST
from mainstay.inspect.sql import SECONDS
from mainstay.spelling import one_of

LIVE, COMMITTED = "live", "committed"
LEVELS = (LIVE, COMMITTED)
PATIENCE_S = 10.0
"""How long a query waits unless it says otherwise."""


class Connection(ABC):
    """The state of a job, for queries: what ``connect`` returns. Any thread may ask."""

    def query(
        self,
        state: str,
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = COMMITTED,
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """What a state, named ``operator.state``, holds: of a key, of some keys, or of all.

        ``key`` is a value, None for the null key, or for a key of several columns a tuple or a
        dictionary. Without keys it is a scan, of which ``limit`` bounds the rows. ``epoch`` is any
        that is kept; the latest is the one that is the latest now. ``after`` waits, ten seconds or
        ``timeout``, for an epoch that has everything up to there: the number of an epoch, or the
        offsets of sources, as ``{"orders": {"orders-0": 1200}}``. ``at="live"`` asks the owners of
        the keys, and needs the address of a running job.
        """
        what: dict[str, Any] = {"key": key, "keys": keys, "limit": limit}
        when: dict[str, Any] = {"at": at, "epoch": epoch, "after": after, "timeout": timeout}
        return self.query_states([state], **what, **when)[state]

    @abstractmethod
    def query_states(
        self,
        states: Sequence[str],
        *,
        key: Any = ALL_KEYS,
        keys: Iterable[Any] | None = None,
        limit: int | None = None,
        at: str = COMMITTED,
        epoch: int | str = LATEST,
        after: After | None = None,
        timeout: float | None = None,
    ) -> dict[str, Answer]:
        """The same of several states, by their names.

        Committed ones are all of one epoch. Of live ones those of one operator are of one moment
        for each of its subtasks.
        """

    @abstractmethod
    def sql(
        self, statement: str, *, epoch: int | str = LATEST, timeout: float = SECONDS
    ) -> pa.Table:
        """The rows of a ``SELECT`` over states, each the table ``operator.state``.

        All of them are read at one epoch. After ``timeout`` seconds it is stopped.
        Needs DuckDB where the snapshots are read: ``pip install 'mainstay[sql]'``.
        """

    @abstractmethod
    def states(self, epoch: int | str = LATEST) -> dict[str, StateColumns]:
        """The states that can be asked for, by their names."""


def check_level(at: str, epoch: int | str, after: object) -> None:
    """Refuse what does not go together."""
    if at not in LEVELS:
        raise GraphError(f"at={at!r} is no level of a query. Use {one_of(LEVELS)}.")
    if after is not None and epoch != LATEST:
        raise GraphError("after= waits for the latest epoch. Leave epoch= out, or after=.")


def is_live(at: str, epoch: int | str, after: object) -> bool:
    """Whether the owners of keys are asked: an epoch is committed, whatever else is said."""
    check_level(at, epoch, after)
    return at == LIVE and epoch == LATEST and after is None
