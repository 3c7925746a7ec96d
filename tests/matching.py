"""What a pattern matches, by trying every way to give rows to its steps.

It knows nothing of how matches are found while rows come: it looks at all rows of a key at once,
and asks of each way whether all of it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import mainstay as ms
from mainstay.api.matching import _check_steps
from mainstay.api.patterns import Pattern
from mainstay.errors import GraphError
from mainstay.runtime.patterns import Member, PatternSpec, Step, steps_in

Path = tuple[tuple[int, int], ...]
"""Numbers of rows, each with the number of its step."""


@dataclass(frozen=True)
class Found:
    """All matches and all partial ones whose time was over, in the order of their first rows."""

    matches: list[Path]
    timed_out: list[Path]


@dataclass(frozen=True)
class Slot:
    """A row that may come next: of which step, and what the rows up to it must not be."""

    step: int | None
    """None where the pattern ends."""
    how: str
    forbidden: tuple[tuple[int, bool], ...]
    """What must not come, and whether that is said of the very next row alone."""
    left: int | None
    """A greedy step that is left though it might have gone on."""
    until: int | None
    """What ends the step that goes on."""


@dataclass(frozen=True)
class Rest:
    """What is left of a pattern: members from one on, or a member that has come so often; then what
    is left behind that."""

    members: tuple[Member, ...]
    begin: int
    repeated: Member | None
    count: int
    then: Rest | None
    turn: str | None = None
    """How a time of a group follows what is before it, while none of its rows has come."""


class Ways:
    """Every way that a pattern may go on, found by taking it apart."""

    def __init__(self, members: Sequence[Member]) -> None:
        steps = list(steps_in(members))
        self._numbers = {step.name: number for number, step in enumerate(steps)}
        self.untils = [step.name for step in steps if step.until is not None]
        self.begin = Rest(tuple(members), 0, None, 0, None)

    def until(self, step: Step) -> int | None:
        if step.until is None:
            return None
        return len(self._numbers) + self.untils.index(step.name)

    def on(
        self,
        rest: Rest | None,
        forbidden: tuple[tuple[int, bool], ...] = (),
        left: int | None = None,
    ) -> Iterator[tuple[Slot, Rest | None]]:
        """The rows that may come next, and what is left behind each."""
        if rest is None:
            yield Slot(None, "any", forbidden, left, None), None
        elif rest.repeated is not None:
            yield from self._again(rest.repeated, rest.count, rest.then, forbidden, left)
        elif rest.begin == len(rest.members):
            yield from self.on(rest.then, forbidden, left)
        else:
            member = rest.members[rest.begin]
            behind = Rest(rest.members, rest.begin + 1, None, 0, rest.then)
            without = replace(behind, turn=rest.turn)
            if isinstance(member, Step) and member.is_not:
                more = (self._numbers[member.name], member.contiguity == "strict")
                yield from self.on(without, (*forbidden, more), left)
                return
            how = member.contiguity if rest.turn is None else rest.turn
            once = Rest((), 0, member, 1, behind)
            yield from self._into(member, how, once, forbidden, left)
            if member.is_optional:
                yield from self.on(without, forbidden, left)

    def _again(
        self,
        member: Member,
        count: int,
        then: Rest | None,
        forbidden: tuple[tuple[int, bool], ...],
        left: int | None,
    ) -> Iterator[tuple[Slot, Rest | None]]:
        may_repeat = member.most is None or count < member.most
        if may_repeat:
            once_more = Rest((), 0, member, count + 1, then)
            until = self.until(member) if isinstance(member, Step) else None
            for slot, behind in self._into(member, member.inner, once_more, forbidden, left):
                yield replace(slot, until=until), behind
        if count >= member.least:
            is_greedy = isinstance(member, Step) and member.is_greedy and may_repeat
            yield from self.on(then, forbidden, self._numbers[member.name] if is_greedy else left)  # type: ignore[union-attr]

    def _into(
        self,
        member: Member,
        how: str,
        then: Rest | None,
        forbidden: tuple[tuple[int, bool], ...],
        left: int | None,
    ) -> Iterator[tuple[Slot, Rest | None]]:
        if isinstance(member, Step):
            yield Slot(self._numbers[member.name], how, forbidden, left, None), then
            return
        turn = Rest(member.members, 0, None, 0, then, turn=how)
        yield from self.on(turn, forbidden, left)


class Trying:
    """The rows of one key, and a pattern. Its conditions are functions of a row and the rows that
    were taken before it: those of the steps, and then those that end some of them."""

    def __init__(self, pattern: Pattern, conditions: Sequence[Any], rows: Sequence[Any]) -> None:
        self._steps = pattern.steps
        self._ways = Ways(pattern.members)
        self._within_us = pattern.within_us
        self._conditions = conditions
        self._times = [time for time, _ in rows]
        self._rows = [row for _, row in rows]

    def found(self, skip: str) -> Found:
        matches: list[Path] = []
        timed_out: list[Path] = []
        next_start = 0
        for start in range(len(self._rows)):
            if start < next_start:
                continue
            paths = list(self._paths(start))
            ranks = [(rank, path) for path, rest in paths for rank in self._whole(path, rest)]
            whole = {path: min(rank for rank, of in ranks if of == path) for _, path in ranks}
            if skip == "none" or not whole:
                over = {path for path, rest in paths if self._is_timed_out(path, rest)}
                timed_out += sorted(over)
            first = sorted(whole, key=lambda path: whole[path])
            if skip == "none":
                matches += first
            elif whole:
                matches.append(first[0])
                next_start = (first[0][-1][0] if skip == "past_last" else start) + 1
        return Found(matches, timed_out)

    # ------------------------------------------------------------ paths

    def _paths(self, start: int) -> Iterator[tuple[Path, Rest | None]]:
        for slot, rest in self._ways.on(self._ways.begin):
            if slot.step is not None and self._holds(slot.step, start, ()):
                yield from self._longer(((start, slot.step),), rest)

    def _longer(self, path: Path, rest: Rest | None) -> Iterator[tuple[Path, Rest | None]]:
        yield path, rest
        for row in range(path[-1][0] + 1, self._over(path)):
            for slot, behind in self._ways.on(rest):
                if slot.step is None or not self._is_open(path, row, slot):
                    continue
                if self._holds(slot.step, row, path):
                    yield from self._longer((*path, (row, slot.step)), behind)

    def _over(self, path: Path) -> int:
        """The first row that comes when the time of a path is over."""
        if self._within_us is None:
            return len(self._rows)
        until = self._times[path[0][0]] + self._within_us
        return sum(time < until for time in self._times)

    def _holds(self, condition: int, row: int, path: Path) -> bool:
        taken = [(self._rows[each], self._steps[of].name) for each, of in path]
        return bool(self._conditions[condition](self._rows[row], taken))

    # ------------------------------------------------------------ what is allowed

    def _is_open(self, path: Path, row: int, slot: Slot) -> bool:
        """Whether a row may be the next of a path, if the condition of its step holds for it."""
        if slot.left is not None and self._would_repeat(path, row, slot.left):
            return False
        if slot.until is not None and self._comes(path, row, slot.until):
            return False
        between = range(path[-1][0] + 1, row)
        return self._is_clear(path, row, slot) and self._follows(path, between, slot)

    def _follows(self, path: Path, between: range, slot: Slot) -> bool:
        if slot.how == "strict":
            return not between
        if slot.how == "any" or slot.step is None:
            return True
        return not any(self._holds(slot.step, each, path) for each in between)

    def _comes(self, path: Path, row: int, condition: int) -> bool:
        """Whether a condition holds for a row behind a path, up to one."""
        rows = range(path[-1][0] + 1, min(row, len(self._rows) - 1) + 1)
        return any(self._holds(condition, each, path) for each in rows)

    def _would_repeat(self, path: Path, row: int, at: int) -> bool:
        """Whether a greedy step would rather have taken a row up to this one."""
        step, last = self._steps[at], path[-1][0]
        until = last + 1 if step.inner == "strict" else row
        end = self._ways.until(step)
        for each in range(last + 1, min(until, row, len(self._rows) - 1) + 1):
            if end is not None and self._holds(end, each, path):
                return False
            if self._holds(at, each, path):
                return True
        return False

    def _is_clear(self, path: Path, row: int, slot: Slot) -> bool:
        """Whether nothing is between that must not be."""
        last = path[-1][0]
        for number, is_next in slot.forbidden:
            until = min(last + 1, row) if is_next else row - 1
            until = min(until, len(self._rows) - 1)
            if any(self._holds(number, each, path) for each in range(last + 1, until + 1)):
                return False
        return True

    # ------------------------------------------------------------ ends

    def _whole(self, path: Path, rest: Rest | None) -> Iterator[tuple[Any, ...]]:
        """When a path is whole, as what several are ordered by."""
        rows, steps = [row for row, _ in path], [step for _, step in path]
        order = (rows[-1], -len(path), rows, steps)
        for slot, _ in self._ways.on(rest):
            if slot.step is not None:
                continue
            over = self._over(path)
            if not slot.forbidden:
                yield (0, *order)
            elif self._until(over)._is_clear(path, over, slot):
                yield (1, *order)

    def _is_timed_out(self, path: Path, rest: Rest | None) -> bool:
        """Whether a path could have gone on when its time was over."""
        if self._within_us is None or any(self._whole(path, rest)):
            return False
        over = self._over(path)
        known = self._until(over)
        slots = [slot for slot, _ in self._ways.on(rest) if slot.step is not None]
        return any(known._is_open(path, over, slot) for slot in slots)

    def _until(self, over: int) -> Trying:
        """The same with fewer rows."""
        found = Trying.__new__(Trying)
        found.__dict__.update(vars(self), _rows=self._rows[:over], _times=self._times[:over])
        return found


# ---------------------------------------------------------------- drawn patterns

LETTERS = "abcd"
SKIPS = ("past_last", "to_next", "none")


def rises(row: Any, match: Any) -> bool:
    """Whether a row has a greater number than the last one that was taken."""
    return not match.rows or row.n > match.rows[-1].n


@dataclass(frozen=True)
class Drawn:
    """A pattern of rows with a letter and a number, with its conditions as the model asks them."""

    pattern: Pattern
    conditions: list[Any]


def drawn(random: Random, *, within: Any = None, leaves_heads: bool = False) -> Drawn:
    """A pattern of a few steps that the API takes; it may be one with many groups, most of which
    may be without their first step."""
    while True:
        try:
            made = _Drawing(random, leaves_heads=leaves_heads).pattern(random.randint(2, 4))
            pattern = made if within is None else made.within(within)
            _check_steps(PatternSpec(pattern.members, pattern.within_us, "none"), "drawn")
        except GraphError:
            continue
        return Drawn(pattern, _asked(pattern))


def _asked(pattern: Pattern) -> list[Any]:
    """The conditions of a pattern in the order of their numbers."""
    whens = [pattern.conditions[step.name] for step in pattern.steps]
    whens += [pattern.ends[step.name] for step in pattern.steps if step.until is not None]
    return [_ASKED[id(when)] for when in whens]


_ASKED: dict[int, Any] = {id(rises): lambda row, taken: not taken or row[1] > taken[-1][0][1]}
"""Conditions as the model asks them."""
_KEPT: list[Any] = []
"""So that no other object has the id of one of them."""


class _Drawing:
    """Steps by the names s0, s1 and so on, in groups and beside them."""

    def __init__(self, random: Random, *, leaves_heads: bool) -> None:
        self._random = random
        self._leaves_heads = leaves_heads
        self._groups, self._sizes = (0.4, (2, 3)) if leaves_heads else (0.2, (1, 2))
        self._count = 0

    def pattern(self, size: int, *, depth: int = 0) -> Pattern:
        pattern = self._repeated(ms.pattern(*self._step(depth)))
        if self._leaves_heads and depth and self._random.random() < 0.6:
            pattern = pattern.optional()
        for _ in range(1, size):
            method = self._random.choice(METHODS)
            if method.startswith("not"):
                pattern = getattr(pattern, method)(*self._named(may_see=False))
            else:
                pattern = self._repeated(getattr(pattern, method)(*self._step(depth)))
        return pattern

    def _step(self, depth: int) -> tuple[Any, ...]:
        if depth < 2 and self._random.random() < self._groups:
            return (self.pattern(self._random.randint(*self._sizes), depth=depth + 1),)
        return self._named()

    def _named(self, *, may_see: bool = True) -> tuple[str, Any]:
        self._count += 1
        return f"s{self._count - 1}", self._when(may_see=may_see)

    def _when(self, *, may_see: bool = True) -> Any:
        random = self._random
        if may_see and random.random() < 0.15:
            return rises
        letters = "".join(random.sample(LETTERS, random.choice([1, 1, 2])))
        when = ms.col("letter").isin(*letters)
        _ASKED[id(when)] = lambda row, taken: row[0] in letters
        _KEPT.append(when)
        return when

    def _repeated(self, pattern: Pattern) -> Pattern:
        random, kind = self._random, self._random.random()
        if kind < 0.2:
            pattern = pattern.times(*random.choice([(2,), (1, 2), (2, 3)]))
        elif kind < 0.4:
            pattern = pattern.one_or_more()
        if kind < 0.4:
            change = random.choice(["", "", "greedy", "consecutive", "allow_combinations"])
            pattern = getattr(pattern, change)() if change else pattern
            if random.random() < 0.25:
                pattern = pattern.until(self._when())
        return pattern.optional() if random.random() < 0.2 else pattern


METHODS = ("then", "followed_by", "followed_by", "followed_by_any", "not_then", "not_followed_by")
