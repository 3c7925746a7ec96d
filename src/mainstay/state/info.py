"""A state as the runtime uses it: what its declaration says, and its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mainstay.state.kind import StateKind
from mainstay.state.migration import Migration
from mainstay.state.ttl import Ttl
from mainstay.state.values import ValueType


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

    @property
    def is_keyed(self) -> bool:
        return self.redistribute is None
