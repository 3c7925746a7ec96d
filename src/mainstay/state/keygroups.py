"""Key-groups: the unit in which keyed state is assigned to subtasks and moved between them.

A key belongs to one of ``max_parallelism`` groups for as long as the job's state lives (see
``hashing``); what changes with the parallelism is which subtask owns a group. Of ``P`` subtasks and
``M`` groups, subtask ``i`` owns the groups from ``ceil(i·M/P)`` to ``floor(((i+1)·M−1)/P)``, and
group ``g`` is owned by subtask ``floor(g·P/M)``. Both say the same: the ranges are contiguous,
disjoint, cover every group, and differ in size by at most one.

    >>> [str(range_of(subtask, 3, 128)) for subtask in range(3)]
    ['0..42', '43..85', '86..127']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mainstay.errors import GraphError

# Names the hash by which keys are assigned to groups; stored with every snapshot.
HASH_ID = "mainstay-1"
MAX_MAX_PARALLELISM = 32768


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """The key-groups from ``first`` to ``last``, both included; empty if ``last < first``.

    An empty range is always ``(0, -1)``, so that empty ranges are equal.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        if self.last < self.first:
            object.__setattr__(self, "first", 0)
            object.__setattr__(self, "last", -1)
        elif self.first < 0:
            raise ValueError(f"a key-group range begins at 0 or later, not at {self.first}")

    @classmethod
    def empty(cls) -> KeyGroupRange:
        return cls(0, -1)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, group: object) -> bool:
        return isinstance(group, (int, np.integer)) and self.first <= int(group) <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"{self.first}..{self.last}" if self else "none"


def check_max_parallelism(max_parallelism: int) -> None:
    """Raise a GraphError unless there may be this many key-groups."""
    if not 1 <= max_parallelism <= MAX_MAX_PARALLELISM:
        raise GraphError(
            f"max_parallelism is {max_parallelism} but must lie between 1 and {MAX_MAX_PARALLELISM}"
        )


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Raise a GraphError unless every subtask can own at least one key-group."""
    check_max_parallelism(max_parallelism)
    if not 1 <= parallelism <= max_parallelism:
        raise GraphError(
            f"the parallelism is {parallelism} but must lie between 1 and max_parallelism, which "
            f"is {max_parallelism}; lower the parallelism, or raise max_parallelism for a job that "
            "has no state yet"
        )


def range_of(subtask: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """The key-groups that a subtask owns."""
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= subtask < parallelism:
        raise GraphError(f"there is no subtask {subtask} at parallelism {parallelism}")
    first = -(-subtask * max_parallelism // parallelism)
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(first, last)


def subtask_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask that owns a key-group."""
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= group < max_parallelism:
        raise GraphError(f"there is no key-group {group} at max_parallelism {max_parallelism}")
    return group * parallelism // max_parallelism


def subtasks_of(
    groups: npt.NDArray[np.integer], parallelism: int, max_parallelism: int
) -> npt.NDArray[np.int64]:
    """``subtask_of`` for an array of key-groups, which are taken to be valid."""
    check_parallelism(parallelism, max_parallelism)
    # In 64 bits: a group times a parallelism does not fit the 16 bits that groups come in.
    return groups.astype(np.int64) * parallelism // max_parallelism
