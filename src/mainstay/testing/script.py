"""The script of a run: the elements of all lists in the one order in which they take effect.

The lists of several inputs are taken in turns, an element of each in a round. Where that does not
say enough, one list has all of it, as pairs of an input's uid and an element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from mainstay.errors import GraphError
from mainstay.testing.elements import OF_JOB, Crash

_stages: WeakValueDictionary[int, Stage] = WeakValueDictionary()
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Step:
    """An element and the input it is of; None where it is of the whole job."""

    uid: str | None
    element: Any


Script = Sequence[Step]


def in_turns(lists: Mapping[str, Sequence[Any]]) -> Script:
    """One element of each list in every round, in the order of the inputs."""
    longest = max((len(elements) for elements in lists.values()), default=0)
    return [
        _step(uid, elements[number])
        for number in range(longest)
        for uid, elements in lists.items()
        if number < len(elements)
    ]


def in_order(merged: Sequence[Any]) -> Script:
    """The steps of one list for all inputs."""
    return [_merged_step(number, each) for number, each in enumerate(merged)]


def lists_of(script: Script) -> dict[str, list[Any]]:
    """The elements of each input."""
    lists: dict[str, list[Any]] = {}
    for step in script:
        if step.uid is not None:
            lists.setdefault(step.uid, []).append(step.element)
    return lists


def crashes_in(script: Script) -> int:
    """How often the script has a worker killed."""
    return sum(isinstance(step.element, Crash) for step in script)


def _step(uid: str, element: Any) -> Step:
    return Step(None if isinstance(element, OF_JOB) else uid, element)


def _merged_step(number: int, each: Any) -> Step:
    if isinstance(each, OF_JOB):
        return Step(None, each)
    match each:
        case (str(uid), element):
            return _step(uid, element)
    raise GraphError(
        f"element {number} of inputs is {each!r}; a list for all inputs has pairs of a uid and a "
        'row or an element, as in ("clicks", ("alice", 5)). Only advance_clock, snapshot and crash '
        "stand alone."
    )


class Stage:
    """How far a run has come in its script. Readers of copied sources share it.

    ``cursor`` is the number of steps that may be read. It goes back when a split is opened at an
    earlier offset, so that what is read again is read in the same order.
    """

    def __init__(self, script: Script, uids: Sequence[str] = ()) -> None:
        self.script = script
        self.cursor = 0
        self._acted = 0
        self._ended = 0
        self._places: dict[str, list[int]] = {uid: [] for uid in uids}
        for place, step in enumerate(script):
            if step.uid is not None:
                self._places[step.uid].append(place)
        self._number = next(_numbers)
        _stages[self._number] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _stage, (self._number,)

    @property
    def is_over(self) -> bool:
        """Whether all steps have been made."""
        return self.cursor == len(self.script)

    def opened(self, uid: str, position: int) -> None:
        """An input is read from one of its elements on."""
        places = self._places[uid]
        if position < len(places):
            self.cursor = min(self.cursor, places[position])
            self._ended = 0

    def may_read(self, uid: str, position: int) -> bool:
        """Whether the turn of an element has come."""
        return self._places[uid][position] < self.cursor

    @property
    def is_ended(self) -> bool:
        """Whether all inputs have come to their end."""
        return self._ended == len(self._places)

    def end_next(self) -> None:
        """Have the next input end: in their order, one after the other."""
        self._ended += 1

    def may_end(self, uid: str) -> bool:
        """Whether an input that was read to its last element has its end there."""
        return self.is_over and list(self._places).index(uid) < self._ended

    def go_on(self) -> Any | None:
        """Make the next step; its element if that is of the whole job and has not been before."""
        step, self.cursor = self.script[self.cursor], self.cursor + 1
        if step.uid is not None or self.cursor <= self._acted:
            return None
        self._acted = self.cursor
        return step.element


def _stage(number: int) -> Stage:
    return _stages[number]
