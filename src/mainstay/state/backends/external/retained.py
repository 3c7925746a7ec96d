"""Which epoch a database with versions shows, and which it need not keep any more. Decisions only.

::

    folded ≤ the oldest epoch that may be asked for ≤ pointer ≤ the newest complete epoch
"""

from __future__ import annotations

from collections import deque

from mainstay.state.keygroups import KeyGroupRange

LEAST_ROWS = 2_000
"""Deltas that are worth folding: it takes a transaction, however few there are."""
MOST_EPOCHS = 64
"""Epochs after which they are folded all the same, so that their list stays short."""
ROWS_AT_A_TIME = 50_000
"""About how many deltas are folded in one transaction."""


class Retained:
    """The complete epochs that one subtask knows of, and what it has told the database of them.

    ``since`` is the epoch that the attempt starts from, ``most`` how many may be asked for.
    """

    def __init__(self, since: int, most: int) -> None:
        self._complete: deque[int] = deque([since] if since else [], maxlen=max(1, most))
        self.said = 0
        self._pointer = 0
        self._folded = since
        # What the attempts before have left behind is not known: it is folded soon.
        self._rows: deque[tuple[int, int]] = deque([(since, LEAST_ROWS)])
        self._parts: deque[KeyGroupRange] = deque()
        self._folding = 0

    def complete(self, epoch: int) -> None:
        if not self._complete or epoch > self._complete[-1]:
            self._complete.append(epoch)

    @property
    def newest(self) -> int:
        return self._complete[-1] if self._complete else 0

    def pointed(self, epoch: int, pointer: int) -> None:
        """The database was told of an epoch, and shows this one now."""
        self.said = max(self.said, epoch)
        self._pointer = max(self._pointer, pointer)

    def staged(self, epoch: int, rows: int) -> None:
        """The database has as many more deltas."""
        self._rows.append((epoch, rows))

    # ------------------------------------------------------------ folding

    @property
    def oldest(self) -> int:
        """The oldest epoch that somebody may ask for, as far as is known; 0 if all may be."""
        is_known = len(self._complete) == self._complete.maxlen
        return min(self._complete[0], self._pointer) if is_known else 0

    def next_part(self, groups: KeyGroupRange) -> tuple[KeyGroupRange, int] | None:
        """The key-groups that are folded next, and up to which epoch; None if none are."""
        if not self._parts:
            self._begin(groups)
        return (self._parts[0], self._folding) if self._parts else None

    def _begin(self, groups: KeyGroupRange) -> None:
        epoch = self.oldest
        rows = sum(count for of, count in self._rows if of <= epoch)
        is_due = rows >= LEAST_ROWS or epoch - self._folded >= MOST_EPOCHS
        if epoch > self._folded and is_due:
            self._folding = epoch
            self._parts.extend(in_parts(groups, 1 + rows // ROWS_AT_A_TIME))

    def folded_part(self) -> None:
        self._parts.popleft()
        if not self._parts:
            self._folded = self._folding
            self._rows = deque(each for each in self._rows if each[0] > self._folded)


def in_parts(groups: KeyGroupRange, count: int) -> list[KeyGroupRange]:
    """Key-groups in about as many runs of the same length."""
    length = -(-len(groups) // count)
    starts = range(groups.first, groups.last + 1, length)
    return [KeyGroupRange(first, min(first + length - 1, groups.last)) for first in starts]
