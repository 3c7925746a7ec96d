"""What a pattern is once its author has written it: steps, conditions, and how rows follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow.compute as pc

Contiguity: TypeAlias = Literal["strict", "relaxed", "any"]
STRICT: Contiguity = "strict"
RELAXED: Contiguity = "relaxed"
ANY: Contiguity = "any"
"""Which rows may lie between two that follow each other in a match: none, those that the second
step does not take, or any."""

Skip: TypeAlias = Literal["past_last", "to_next", "none"]
PAST_LAST: Skip = "past_last"
TO_NEXT: Skip = "to_next"
NONE: Skip = "none"
"""What else the rows of a match may be part of: no other match, none that starts at the same row,
or any."""


@dataclass(frozen=True, slots=True)
class Condition:
    """When a row is one that a step takes: always, unless one of these says so."""

    expression: pc.Expression | None = None
    function: Callable[..., Any] | None = None
    sees_match: bool = False
    """Whether the function is given what is matched so far beside the row."""


@dataclass(frozen=True, slots=True)
class Step:
    """A row of a match, or several that follow each other; or one that must not be there."""

    name: str
    condition: Condition
    contiguity: Contiguity
    is_not: bool = False
    least: int = 1
    most: int | None = 1
    inner: Contiguity = RELAXED
    """How the rows of the step follow each other, where it has several."""
    is_optional: bool = False
    is_greedy: bool = False
    until: Condition | None = None
    """The row behind which the step takes no more, where it has several."""

    @property
    def is_several(self) -> bool:
        """Whether it may have more than one row."""
        return self.most != 1


@dataclass(frozen=True, slots=True)
class Group:
    """Steps that follow each other, once or several times over."""

    members: tuple[Member, ...]
    contiguity: Contiguity
    least: int = 1
    most: int | None = 1
    inner: Contiguity = RELAXED
    """How one time follows the one before."""
    is_optional: bool = False

    @property
    def is_several(self) -> bool:
        """Whether it may be there more than once."""
        return self.most != 1


Member: TypeAlias = "Step | Group"
"""What a pattern consists of."""


def steps_in(members: Iterable[Member]) -> Iterator[Step]:
    """All steps, those of groups too, in their order."""
    for member in members:
        if isinstance(member, Group):
            yield from steps_in(member.members)
        else:
            yield member


def several_in(members: Iterable[Member], *, is_repeated: bool = False) -> Iterator[bool]:
    """For each of these steps whether a match may have more than one row of it."""
    for member in members:
        is_several = is_repeated or member.is_several
        if isinstance(member, Group):
            yield from several_in(member.members, is_repeated=is_several)
        else:
            yield is_several


@dataclass(frozen=True, slots=True)
class PatternSpec:
    """What a pattern consists of, how long a match may take, and where the next one may start."""

    members: tuple[Member, ...]
    within_us: int | None
    skip: Skip

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, those of groups too."""
        return tuple(steps_in(self.members))

    @property
    def taken(self) -> dict[str, tuple[int, bool]]:
        """The steps that have rows: the number of each, and whether it may have several."""
        several = zip(self.steps, several_in(self.members), strict=True)
        return {
            step.name: (number, is_several)
            for number, (step, is_several) in enumerate(several)
            if not step.is_not
        }

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the steps, by their numbers, and then those that end a step of several rows."""
        ends = (step.until for step in self.steps if step.until is not None)
        return (*(step.condition for step in self.steps), *ends)

    def shape(self) -> str:
        """All that partial matches in the state depend on: not the conditions."""
        return f"the pattern {_shape(self.members)} with skip={self.skip!r}"


def _shape(members: Iterable[Member]) -> str:
    described = []
    for member in members:
        most = "" if member.most is None else member.most
        times = f"{{{member.least},{most}}}{member.inner}" if member.is_several else ""
        optional = "?" if member.is_optional else ""
        if isinstance(member, Group):
            described.append(f"{member.contiguity} ({_shape(member.members)}){times}{optional}")
            continue
        flags = f"{optional}{'+' if member.is_greedy else ''}{'' if member.until is None else '|'}"
        described.append(
            f"{member.contiguity} {'!' if member.is_not else ''}{member.name}{times}{flags}"
        )
    return ", ".join(described)
