"""Patterns, as a job's author writes them: steps that rows of a key follow.

::

    ms.pattern("small", ms.col("amount") < 1).then("big", ms.col("amount") > 500).within("1min")

A pattern is never changed: each method returns another one. What is wrong with a step is refused
when it is written, and a condition that does not fit the rows when the pattern meets them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow.compute as pc

from mainstay.api.expressions import Column
from mainstay.errors import GraphError
from mainstay.own_frames import with_own_frames
from mainstay.quantities import seconds, whole_number
from mainstay.runtime.operators.patterns.automaton import MOST_PLACES, count_places
from mainstay.runtime.operators.patterns.matched import RESERVED
from mainstay.runtime.patterns import (
    ANY,
    RELAXED,
    STRICT,
    Condition,
    Contiguity,
    Group,
    Member,
    Step,
    steps_in,
)

When: TypeAlias = Column | pc.Expression | Callable[..., Any] | None
"""A condition: an expression of columns, or a function of a row, or of a row and the match so far;
None is true of every row."""


@with_own_frames
@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Steps that rows of a key follow, made by :func:`mainstay.pattern`.

    ``then``, ``followed_by`` and ``followed_by_any`` add a step, or a pattern as a group of them;
    ``times``, ``one_or_more``, ``optional``, ``greedy``, ``until``, ``consecutive`` and
    ``allow_combinations`` say more about what was added last; ``within`` limits the whole.
    """

    members: tuple[Member, ...]
    conditions: Mapping[str, When]
    """The conditions of the steps, by their names."""
    ends: Mapping[str, When]
    """Those that end steps of several rows."""
    within_us: int | None = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, those of groups too."""
        return tuple(steps_in(self.members))

    # ------------------------------------------------------------ steps

    def then(self, step: str | Pattern, when: When = None) -> Pattern:
        """The very next row of the key. A pattern in the place of a name is a group: its first row
        is the very next one."""
        return self._with(step, when, STRICT)

    def followed_by(self, step: str | Pattern, when: When = None) -> Pattern:
        """The next row that the condition holds for; rows between are passed over. A pattern in
        the place of a name is a group that begins with that row."""
        return self._with(step, when, RELAXED)

    def followed_by_any(self, step: str | Pattern, when: When = None) -> Pattern:
        """Any later row that the condition holds for: a match for each of them. A pattern in the
        place of a name is a group that begins with any of them."""
        return self._with(step, when, ANY)

    def not_then(self, name: str, when: When) -> Pattern:
        """The very next row must not be one that the condition holds for."""
        return self._without(name, when, STRICT)

    def not_followed_by(self, name: str, when: When) -> Pattern:
        """No row that the condition holds for may come before the next step. At the end of a
        pattern, none may come while ``within`` lasts; then the match is complete."""
        return self._without(name, when, RELAXED)

    # ------------------------------------------------------------ how many rows

    def times(self, least: int, most: int | None = None) -> Pattern:
        """So many rows, ``times(2)``, or from so many to so many, ``times(2, 5)``; of a group, so
        many times over."""
        where = f"times() of {_described(self.members[-1])}"
        whole_number(least, "least", where=where)
        if most is not None:
            whole_number(most, "most", where=where)
        most = least if most is None else most
        if most < least:
            raise GraphError(f"{where}: most={most} is less than least={least}.")
        found = self._last("times", least=least, most=most)
        if count_places(found.members) > MOST_PLACES:
            raise GraphError(f"{where}: more than {MOST_PLACES} rows cannot be counted.")
        return found

    def one_or_more(self) -> Pattern:
        """At least one row; a match for each number of rows, unless ``greedy`` is said. A group
        comes at least once."""
        return self._last("one_or_more", least=1, most=None)

    def optional(self) -> Pattern:
        """The step or the group may be left out."""
        return self._last("optional", is_optional=True)

    def greedy(self) -> Pattern:
        """As many rows as there are before the next step, instead of each number of them."""
        self._check_step("greedy")
        return self._several("greedy", is_greedy=True)

    def until(self, when: When) -> Pattern:
        """The step takes no more rows when one comes that the condition holds for, nor that one.
        What comes behind the step may take it. It needs a row of the step before it."""
        name = self._check_step("until").name
        if when is None:
            raise GraphError(f"until() of the step {name!r} says what ends it. Give a condition.")
        found = self._several("until", until=_condition(name, when))
        return replace(found, ends={**self.ends, name: when})

    def consecutive(self) -> Pattern:
        """The rows of the step, or the repetitions of the group, follow each other directly."""
        return self._several("consecutive", inner=STRICT)

    def allow_combinations(self) -> Pattern:
        """Rows that the condition of the step holds for may be passed over within it; of a group,
        those that it could begin with again."""
        return self._several("allow_combinations", inner=ANY)

    def within(self, duration: str | float) -> Pattern:
        """A match takes less than this from its first row to its last."""
        within_us = round(seconds(duration, "within", positive=True) * 1_000_000)
        if within_us < 1:
            raise GraphError(f"within({duration!r}) must be at least a microsecond.")
        return replace(self, within_us=within_us)

    # ------------------------------------------------------------ in common

    def _with(self, step: str | Pattern, when: When, how: Contiguity) -> Pattern:
        added = _member(step, when, how)
        known = {each.name for each in self.steps}
        for each in added.steps:
            if each.name in known:
                raise GraphError(
                    f"the pattern has two steps {each.name!r}. Each needs a name of its own."
                )
        return replace(
            self,
            members=self.members + added.members,
            conditions={**self.conditions, **added.conditions},
            ends={**self.ends, **added.ends},
        )

    def _without(self, name: str, when: When, how: Contiguity) -> Pattern:
        if when is None:
            raise GraphError(f"the step {name!r} says what must not come. Give it a condition.")
        found = self._with(name, when, how)
        last = found.members[-1]
        assert isinstance(last, Step)
        return replace(found, members=(*found.members[:-1], replace(last, is_not=True)))

    def _last(self, method: str, **changed: Any) -> Pattern:
        """The same with another last member."""
        member = self.members[-1]
        if isinstance(member, Step) and member.is_not:
            raise GraphError(
                f"{method}() follows the step {member.name!r}, which must not be there. Call it "
                "behind the step that it is about."
            )
        return replace(self, members=(*self.members[:-1], replace(member, **changed)))

    def _check_step(self, method: str) -> Step:
        member = self.members[-1]
        if isinstance(member, Group):
            raise GraphError(
                f"{method}() is for a step of several rows, and follows {_described(member)}. Call "
                "it behind a step of the group."
            )
        return member

    def _several(self, method: str, **changed: Any) -> Pattern:
        found = self._last(method, **changed)
        member = found.members[-1]
        if not member.is_several:
            raise GraphError(
                f"{method}() is for what comes several times, and {_described(member)} comes once. "
                "Call times(...) or one_or_more() before."
            )
        if isinstance(member, Step) and member.is_greedy and member.inner == ANY:
            raise GraphError(
                f"the step {member.name!r} is greedy, so it passes over none of its rows, and "
                "allows combinations, so it does. Leave one of them out."
            )
        return found


def pattern(step: str | Pattern, when: When = None) -> Pattern:
    """A pattern that begins with a row for which a condition holds:
    ``ms.pattern("small", ms.col("amount") < 1)``.

    A condition is an expression of columns, which is by far the quickest, a function of a row, or
    one of a row and the match so far: ``lambda row, match: row.place != match.small.place``. A
    pattern in the place of the name is a group, which may come several times.
    """
    return _member(step, when, ANY)


def _member(step: str | Pattern, when: When, how: Contiguity) -> Pattern:
    """A pattern of one member: a step, or another pattern as a group."""
    if not isinstance(step, Pattern):
        made = Step(_name(step), _condition(step, when), how)
        return Pattern((made,), {made.name: when}, {})
    group = Group(step.members, how)
    if when is not None:
        raise GraphError(f"{_described(group)} has conditions of its own. Leave the other one out.")
    if step.within_us is not None:
        raise GraphError(
            f"{_described(group)} has a within(...) of its own, which limits a whole pattern. Say "
            "it of the pattern that the group is part of."
        )
    if isinstance(step.members[-1], Step) and step.members[-1].is_not:
        raise GraphError(
            f"{_described(group)} ends with {step.members[-1].name!r}, which must not come. Add "
            "the step that it is forbidden before."
        )
    if all(
        each.is_optional for each in step.members if not (isinstance(each, Step) and each.is_not)
    ):
        raise GraphError(
            f"all that {_described(group)} consists of is optional, so that there may be nothing "
            "of it. Leave optional() out of one step, and say it of the group."
        )
    return Pattern((group,), step.conditions, step.ends)


def _described(member: Member) -> str:
    if isinstance(member, Step):
        return f"the step {member.name!r}"
    return f"the group of {', '.join(repr(step.name) for step in steps_in(member.members))}"


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise GraphError(f'a step is called by a name such as "small", not by {name!r}.')
    if name in RESERVED:
        raise GraphError(
            f"a step cannot be called {name!r}, because a match has something else of that name. "
            f"It has {', '.join(RESERVED)}."
        )
    return name


def _condition(name: str, when: Any) -> Condition:
    """The condition of a step; an expression is bound when the pattern meets a stream."""
    if when is None or isinstance(when, Column | pc.Expression):
        return Condition()
    if not callable(when):
        raise GraphError(
            f"the condition of the step {name!r} is {when!r}. Write an expression, "
            'ms.col("amount") > 5, or a function of the row, lambda row: row.amount > 5.'
        )
    return Condition(function=when, sees_match=_sees_match(name, when))


def _sees_match(name: str, function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 2
    raise GraphError(
        f"the condition of the step {name!r} cannot be called with a row, nor with a row and a "
        "match. Write lambda row: ... or lambda row, match: ..."
    )
