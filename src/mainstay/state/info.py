"""A state as the runtime uses it: what its declaration says, and its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainstay.errors import GraphError
from mainstay.state.kind import StateKind
from mainstay.state.migration import Migration
from mainstay.state.ttl import Ttl
from mainstay.state.values import ValueType

if TYPE_CHECKING:
    from mainstay.state.timer_handles import TimerSpec


def checked_queryable(queryable: Any, where: str) -> bool:
    """Refuse what is neither true nor false."""
    if not isinstance(queryable, bool):
        raise GraphError(f"{where}: queryable={queryable!r} must be True or False.")
    return queryable


@dataclass(frozen=True, slots=True)
class StateInfo:
    """A declaration with its name, as the runtime uses it."""

    name: str
    kind: StateKind
    value: ValueType
    map_key: ValueType | None = None
    function: Any = None
    redistribute: str | None = None
    ttl: Ttl | None = None
    migrate: Migration | None = None
    namespace: ValueType | None = None
    """What it is kept by beside the key, where it is (see ``stored_key``)."""
    queryable: bool = True
    """Whether the running job answers questions about it."""
    timer: TimerSpec | None = None
    """What its times are, where it holds timers."""
    may_lose_fields: bool = False
    """Whether fields that its values no longer have are dropped without being asked for."""

    @property
    def is_keyed(self) -> bool:
        return self.redistribute is None
