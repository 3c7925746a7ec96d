"""What a kind of state is: one value that says all there is to say about it.

``kinds`` has those that there are. A kind says how it is kept by its *shape*: each backend has a
table for each shape, so that a new kind of a known shape needs nothing of a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from mainstay.state.info import StateInfo

Shape = Literal["value", "column", "list", "map", "columns", "rows", "spans", "units"]
"""What is kept: a value, a list, a map or a row of accumulators for a key; a value that is read and
written by the column; rows for a key and a pane; rows of accumulators for the spans of a key; the
units of a subtask."""


@dataclass(frozen=True, slots=True)
class StateKind:
    """A kind of state. ``name`` is what manifests call it, and part of the durable format."""

    name: str
    shape: Shape
    handle: Callable[..., Any]
    """Makes what a function sees: of keyed state from info, table and context."""
    given: Callable[[StateInfo, Any], Any]
    """What ``get`` of the handle gives where this is kept, for those who look without one."""
    ttl_table: Callable[..., Any] | None = None
    """The layer over a table for a time to live; None where the kind has none."""
    family: str = ""
    """Kinds of one family keep the same, and may be exchanged for each other by an upgrade."""
    has_fixed_type: bool = False
    """Whether values of another type can never become its values."""

    def __str__(self) -> str:
        return self.name

    @property
    def stored_as(self) -> str:
        """What its rows in files are (see ``operations``): those of values, lists or maps."""
        stored = {"column": "value", "columns": "value", "rows": "list", "spans": "value"}
        return stored.get(self.shape, self.shape)

    def may_become(self, other: StateKind) -> bool:
        """Whether what was stored as this kind may be declared as another."""
        return self.name == other.name or (bool(self.family) and self.family == other.family)
