"""Deferred parts of a cut: operator state that is known only when background work is done.

The marker fixes what belongs to a cut; what a sink prepares for it may take longer to make. The
epoch is not acknowledged before that is known, and is declined when the making of it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mainstay.snapshot.manifest import FileRef

Units = Mapping[str, list[Any]]


class Late:
    """What one cut of one operator still waits for."""

    __slots__ = ("_kept", "_units", "failure", "is_known", "rows")

    def __init__(
        self, units: Callable[[], Units], kept: Callable[[], tuple[FileRef, ...]] = tuple
    ) -> None:
        self._units = units
        self._kept = kept
        self.is_known = False
        self.failure: str | None = None
        self.rows = 0
        """How many in-flight rows it holds."""

    def units(self) -> Units:
        """The units of the cut, by the name of the state; asked once they are known."""
        assert self.is_known, "the late part of a cut is read before it is known"
        return self._units()

    def kept(self) -> tuple[FileRef, ...]:
        """The files that the units name."""
        return self._kept()
