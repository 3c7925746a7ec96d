"""How far the database has come in each key-group: the newest segment that it has of it.

Subtasks come to different points, and after a rescale one of them has key-groups of several: so
this is known of key-groups, and never of subtasks.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstay.state.backends.external.store import Applied
from mainstay.state.keygroups import KeyGroupRange

Run = tuple[int, int, int]
"""Key-groups from the first to the last, and the number of the newest segment in all of them."""


class Reached:
    """The number of the newest segment by key-group; none where there is no row of the ledger."""

    def __init__(self, applied: Iterable[Applied] = ()) -> None:
        self._numbers: dict[int, int] = {}
        for row in applied:
            self.note(row.groups, row.number)

    def note(self, groups: KeyGroupRange, number: int) -> None:
        for group in groups:
            self._numbers[group] = max(number, self._numbers.get(group, 0))

    def runs(self, groups: KeyGroupRange) -> tuple[Run, ...]:
        found: list[Run] = []
        for group in groups:
            number = self._numbers.get(group, 0)
            if found and found[-1][1:] == (group - 1, number):
                found[-1] = (found[-1][0], group, number)
            elif number:
                found.append((group, group, number))
        return tuple(found)

    def lacks(self, runs: Iterable[Run], groups: KeyGroupRange) -> bool:
        """Whether it has less of some key-groups than was reached once."""
        return any(
            self._numbers.get(group, 0) < number
            for first, last, number in runs
            for group in range(max(first, groups.first), min(last, groups.last) + 1)
        )
