"""The places that a partial match can be at, and which rows take it from one to the next.

A step that takes several rows has a place for each of them, and a group that comes several times
has its places as often; where there is no limit, the last one leads back to itself. An edge leads
from the last row of a partial match to the next row that it may take, over optional steps if there
are some. Each edge is open or closed by itself: one that wants the very next row closes when that
row has passed, one that wants the first row of a kind closes when it has taken it. A partial match
lives as long as one of its edges is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mainstay.runtime.patterns import ANY, STRICT, Contiguity, Group, Member, Step, steps_in

END = -1
"""Where the edge of a pattern leads that is complete when its time is over."""
MOST_PLACES = 1000
"""Places that an automaton can have: rows that can be counted."""


@dataclass(frozen=True, slots=True)
class Edge:
    """How a partial match goes on. Conditions are the numbers of their steps."""

    to: int
    condition: int
    contiguity: Contiguity
    is_greedy: bool = False
    """Whether no other edge counts for a row that this one takes."""
    until: int | None = None
    """What closes it when it comes, even if it is the one that would be taken."""
    not_next: tuple[int, ...] = ()
    """What the very next row must not be, even if it is the one that is taken."""
    not_between: tuple[int, ...] = ()
    """What no row must be that lies between."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partial match is: the step of its last row, and the ways on."""

    step: int
    edges: tuple[Edge, ...]
    is_complete: bool
    """Whether what was matched so far is a match."""

    @property
    def waits_for_end(self) -> bool:
        """Whether it is a match when its time is over."""
        return bool(self.edges) and self.edges[-1].to == END

    @property
    def all_open(self) -> int:
        """The edges of a partial match that has just come here, a bit for each."""
        return (1 << len(self.edges)) - 1


@dataclass(frozen=True, slots=True)
class Automaton:
    """All places, and the edges by which a row begins a match."""

    start: tuple[Edge, ...]
    places: tuple[Place, ...]

    @property
    def waits_for_end(self) -> bool:
        """Whether there are matches that are complete only when their time is over."""
        return any(place.waits_for_end for place in self.places)


_COMPLETE = Edge(END, END, ANY)
"""An edge to the end that nothing stands in the way of."""
Onward = Callable[[], "list[Edge]"]
"""The edges that lead on from where something is complete; asked for when all places are known."""


def automaton_of(members: Sequence[Member]) -> Automaton:
    """The automaton of what a pattern consists of."""
    laid = _Layout(members)
    pattern = _Sequence(laid, members)
    pattern.link(lambda: [_COMPLETE])
    # Any row may begin a match, however the first steps follow what is before them.
    start = (Edge(edge.to, edge.condition, ANY) for edge in pattern.entries(ANY))
    return Automaton(tuple(start), tuple(laid.places()))


def count_places(members: Sequence[Member]) -> int:
    """How many places an automaton would have."""
    found = 0
    for member in members:
        inner = (
            count_places(member.members) if isinstance(member, Group) else int(not member.is_not)
        )
        found += inner * _copies(member)
    return found


def _copies(member: Member) -> int:
    """How often a step or a group is laid out."""
    return max(member.least, 1) if member.most is None else member.most


class _Layout:
    """Places as they are given out, and the numbers of conditions."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._steps = list(steps_in(members))
        self._numbers = {step.name: number for number, step in enumerate(self._steps)}
        ends = [step.name for step in self._steps if step.until is not None]
        self._untils = {name: len(self._steps) + number for number, name in enumerate(ends)}
        self._onward: list[tuple[int, Onward]] = []

    def number(self, step: Step) -> int:
        return self._numbers[step.name]

    def until(self, step: Step) -> int | None:
        return self._untils.get(step.name)

    def place(self, step: int) -> int:
        self._onward.append((step, lambda: []))
        return len(self._onward) - 1

    def lead_on(self, place: int, onward: Onward) -> None:
        self._onward[place] = self._onward[place][0], onward

    def places(self) -> Iterator[Place]:
        for step, onward in self._onward:
            edges = onward()
            is_complete = bool(edges) and edges[-1] == _COMPLETE
            yield Place(step, tuple(edges[:-1] if is_complete else edges), is_complete)


class _Row:
    """One row of a step."""

    def __init__(self, laid: _Layout, step: Step) -> None:
        self._laid = laid
        self._step = laid.number(step)
        self._place = laid.place(self._step)

    def entries(self, how: Contiguity) -> list[Edge]:
        return [Edge(self._place, self._step, how)]

    def link(self, onward: Onward) -> None:
        self._laid.lead_on(self._place, onward)


class _Sequence:
    """Members that follow each other. Not all of them are optional."""

    def __init__(self, laid: _Layout, members: Sequence[Member]) -> None:
        self._laid = laid
        self._members = members
        self._parts = [None if _is_not(each) else _Repeated(laid, each) for each in members]

    def entries(self, how: Contiguity) -> list[Edge]:
        """The edges into it. Whichever of its rows is the first follows what is before in the way
        that is given, also where members at the head are left out."""
        return self._from(0, lambda: [], head=how)

    def link(self, onward: Onward) -> None:
        for number, part in enumerate(self._parts, 1):
            if part is not None:
                part.link(partial(self._from, number, onward))

    def _from(self, begin: int, onward: Onward, *, head: Contiguity | None = None) -> list[Edge]:
        """The edges into members from one on, as far as those before are optional. Where none of
        the members has a row yet, the head says how the first one follows."""
        not_next: tuple[int, ...] = ()
        not_between: tuple[int, ...] = ()
        edges: list[Edge] = []
        for member, part in zip(self._members[begin:], self._parts[begin:], strict=True):
            if part is None:
                assert isinstance(member, Step)
                number = (self._laid.number(member),)
                is_next = member.contiguity == STRICT
                not_next += number if is_next else ()
                not_between += () if is_next else number
                continue
            found = part.entries(head or member.contiguity)
            edges += [_forbidding(edge, not_next, not_between) for edge in found]
            if not member.is_optional:
                return edges
        return edges + [_forbidding(edge, not_next, not_between) for edge in onward()]


def _is_not(member: Member) -> bool:
    return isinstance(member, Step) and member.is_not


def _forbidding(edge: Edge, not_next: tuple[int, ...], not_between: tuple[int, ...]) -> Edge:
    """The same edge, with more that must not come."""
    return replace(
        edge, not_next=not_next + edge.not_next, not_between=not_between + edge.not_between
    )


class _Repeated:
    """A step or a group, as often as it may come."""

    def __init__(self, laid: _Layout, member: Member) -> None:
        self._member = member
        self._parts: list[_Row | _Sequence]
        if isinstance(member, Group):
            self._parts = [_Sequence(laid, member.members) for _ in range(_copies(member))]
            self._is_greedy, self._until = False, None
        else:
            self._parts = [_Row(laid, member) for _ in range(_copies(member))]
            self._is_greedy, self._until = member.is_greedy, laid.until(member)

    def entries(self, how: Contiguity) -> list[Edge]:
        return self._parts[0].entries(how)

    def link(self, onward: Onward) -> None:
        for count, part in enumerate(self._parts, 1):
            part.link(partial(self._behind, count, onward))

    def _behind(self, count: int, onward: Onward) -> list[Edge]:
        """The edges behind so many: to the next one, and on if these are enough."""
        more = self._parts[count : count + 1]
        if not more and self._member.most is None:
            more = self._parts[-1:]
        edges = [
            replace(edge, is_greedy=self._is_greedy, until=self._until)
            for part in more
            for edge in part.entries(self._member.inner)
        ]
        # Where it must go on with the step, being greedy changes nothing.
        return edges + (onward() if count >= self._member.least else [])
