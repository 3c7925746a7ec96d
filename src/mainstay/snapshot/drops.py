"""Drops: what a segment says of panes that are gone, without a word for each of their keys.

A state that is kept by key and pane loses panes as a whole. A *drop* says that whatever was stored
before, from one pane to another and of some key-groups, is gone. Those of a segment come before
all of its rows: a pane that was dropped may come again.

A pane is named by the number under its namespace, such as microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FIRST_PANE = -(1 << 63)
"""Before every pane: where nothing earlier is kept, a drop reaches back to here."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Drop:
    """The panes from ``first`` to ``last`` of these key-groups are gone, all ends included."""

    first: int
    last: int
    first_group: int
    last_group: int

    def clipped(self, first_group: int, last_group: int) -> Drop | None:
        """The part of it inside the given key-groups, or None when there is none."""
        first, last = max(self.first_group, first_group), min(self.last_group, last_group)
        return None if first > last else replace(self, first_group=first, last_group=last)

    def covers(self, panes: npt.NDArray[Any], groups: npt.NDArray[Any]) -> Mask:
        """Which of some rows, by pane and key-group, it takes away."""
        mask: Mask = (panes >= self.first) & (panes <= self.last)
        mask &= (groups >= self.first_group) & (groups <= self.last_group)
        return mask


Drops = tuple[Drop, ...]


def touches(drops: Iterable[Drop], pane: int) -> bool:
    """Whether any drop is of a pane, in whatever key-groups."""
    return any(drop.first <= pane <= drop.last for drop in drops)


def clipped(drops: Iterable[Drop], first_group: int, last_group: int) -> Drops:
    """The parts of drops inside some key-groups."""
    parts = (drop.clipped(first_group, last_group) for drop in drops)
    return tuple(part for part in parts if part is not None)


def covered(
    drops: Sequence[Drop], panes: npt.NDArray[Any], groups: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Which of some rows, by pane and key-group, any drop takes away."""
    mask = np.zeros(len(panes), np.bool_)
    for drop in drops:
        mask |= drop.covers(panes, groups)
    return mask


def joined(drops: Iterable[Drop]) -> Drops:
    """As few drops as say the same."""
    found: list[Drop] = []
    for drop in sorted(drops, key=lambda each: (each.first_group, each.last_group, each.first)):
        before = found[-1] if found else None
        if before is not None and _meet(before, drop):
            found[-1] = replace(before, last=max(before.last, drop.last))
        else:
            found.append(drop)
    return tuple(found)


def _meet(one: Drop, other: Drop) -> bool:
    """Whether two, of which the other begins no earlier, are one of the same key-groups."""
    groups = (one.first_group, one.last_group) == (other.first_group, other.last_group)
    return groups and other.first <= one.last + 1
