"""What backends over tables share: the parts of the contract that tables do by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mainstay.snapshot.statefile import StateTable
from mainstay.state.backends.contract import Doubts, Frozen, Looks, Work
from mainstay.state.backends.tables import Tables
from mainstay.state.looking import Look


class BackendOverTables:
    """The keyed state of one subtask of one operator, as its tables show it.

    Segments, not epochs, are what it goes by: it need not hear of the end of one.
    """

    is_remote = has_own_bases = holds_epochs = False
    trouble: Exception | None = None
    looks: Looks | None = None

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.handles = tables.handles
        self.expiring = tables.expiring

    def encode(self, frozen: Frozen) -> Iterator[list[StateTable]]:
        return self.tables.encode(frozen)

    def leftovers(self, frozen: Frozen) -> list[Any]:
        return self.tables.leftovers(frozen)

    def read_ahead(self, keys: Sequence[Any]) -> Work | None:
        """What is read is near."""
        return None

    def in_doubt(self, now: float) -> Doubts | None:
        """Nothing is prepared anywhere."""
        return None

    def on_cut(self, epoch: int) -> None:
        """Nothing waits for an epoch."""

    def has_voted(self, epoch: int) -> bool:
        """Segments are all there is to an epoch."""
        return True

    def on_held(self, epoch: int) -> None:
        """Nobody reads from outside what is held here."""

    def on_complete(self, epoch: int) -> None:
        """Nothing waits for an epoch."""

    def on_abort(self, epoch: int) -> None:
        """Segments stay in the chain."""

    def is_settled(self, epoch: int) -> bool:
        """Nobody else reads what is held."""
        return True

    def end(self) -> None:
        """Nobody else reads what is held."""

    def entries(self, name: str) -> Iterator[tuple[Any, Any]]:
        return self.tables.entries_of(name)

    def look_at(self, name: str, keys: Sequence[Any]) -> Look:
        return self.tables.look_at(name, keys)

    def look_around(self, name: str, most: int) -> Look:
        return self.tables.look_around(name, most)

    def peek(self, name: str, key: Any, namespace: Any = None) -> Any:
        return self.tables.peek(name, key, namespace)
