"""Partial matches of one key: how a row takes them on, and what becomes of those that end.

A run is a partial match: the rows that it has taken, by their numbers among the rows that are kept
for the key, and its open edges. Runs are in the order of their first rows. One that is complete may
have to wait, if only the first of several matches counts: until none that began before it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstay.runtime.operators.patterns.automaton import END, Automaton, Edge
from mainstay.runtime.patterns import ANY, NONE, STRICT, TO_NEXT, Skip
from mainstay.runtime.watermarks import END_US

RUNNING, AT_ROW, AT_END = 0, 1, 2
"""Whether a run goes on, is complete since its last row, or since its time was over."""

Verdicts = Sequence[bool | None]
"""For each step whether it takes a row; None where a function of the author says so."""
Ask = Callable[["Runs", int, Any, "Run | None"], bool]
"""Whether a step takes a row, seen from a run."""


class Run:
    """A partial match."""

    __slots__ = ("is_fresh", "open", "places", "rows", "state")

    def __init__(
        self,
        rows: tuple[int, ...],
        places: tuple[int, ...],
        open: int,
        is_fresh: bool = True,
        state: int = RUNNING,
    ) -> None:
        self.rows = rows
        self.places = places
        self.open = open
        self.is_fresh = is_fresh
        """Whether no row has passed since its last one."""
        self.state = state


@dataclass(frozen=True, slots=True)
class Outcome:
    """A match, or a partial one whose time is over."""

    run: Run
    rows: list[Any]
    start_us: int
    time_us: int
    is_match: bool


class Runs:
    """All runs of a key, with the rows that they have taken."""

    def __init__(
        self, key: Any, automaton: Automaton, within_us: int | None, skip: Skip, ask: Ask
    ) -> None:
        self.key = key
        self._places = automaton.places
        self._start = automaton.start
        self._within_us = within_us
        self._skip = skip
        self._ask = ask
        self.rows: list[Any] = []
        self.times: list[int] = []
        self.running: list[Run] = []
        self.held: list[Run] = []
        self.is_changed = False
        self.was_due_us: int | None = None
        """What ``due_us`` was when it was restored."""
        self.is_settled = True
        """Whether a row that no step takes changes nothing."""

    def due_us(self) -> int | None:
        """When the time of the first run is over."""
        if self._within_us is None or not self.running:
            return None
        return self.times[self.running[0].rows[0]] + self._within_us

    # ------------------------------------------------------------ a row

    def take(self, row: Any, time_us: int, verdicts: Verdicts, out: list[Outcome]) -> None:
        """The next row of the key."""
        due_us = self.due_us()
        if due_us is not None and due_us <= time_us:
            self.expire(time_us, out)
        self._row, self._verdicts = row, verdicts
        number = len(self.rows)
        running: list[Run] = []
        grown: list[Run] = []
        for run in self.running:
            taken = self._go_on(run)
            if run.open:
                running.append(run)
            for edge in taken:
                grown.append(self._grown(run, edge, number, running))
        for edge in self._start:
            if self._holds(edge.condition, None):
                grown.append(self._grown(None, edge, number, running))
        self.running = running
        self.is_settled = not grown
        if grown:
            self.is_changed = True
            self.rows.append(row)
            self.times.append(time_us)
            self._complete(grown, time_us, out)
        if self.held:
            # A run that began before may have ended without a match.
            self.release(time_us, out)

    def _grown(self, run: Run | None, edge: Edge, number: int, running: list[Run]) -> Run:
        """A run with the row more. It goes on if there is a way."""
        rows, places = ((), ()) if run is None else (run.rows, run.places)
        place = self._places[edge.to]
        grown = Run((*rows, number), (*places, edge.to), place.all_open)
        if grown.open:
            running.append(grown)
        return grown

    def _go_on(self, run: Run) -> list[Edge]:
        """The edges by which a run takes the row. Those close that it can take no later."""
        taken: list[Edge] = []
        edges, left = self._places[run.places[-1]].edges, run.open
        for bit, edge in enumerate(edges):
            if not left >> bit & 1:
                continue
            is_taken, stays = self._decide(edge, run)
            if is_taken:
                taken.append(edge)
            if not stays:
                left &= ~(1 << bit)
            if is_taken and edge.is_greedy:
                left = 0
                break
        if run.is_fresh or left != run.open:
            run.is_fresh, run.open, self.is_changed = False, left, True
        return taken

    def _decide(self, edge: Edge, run: Run) -> tuple[bool, bool]:
        """Whether an edge takes the row, and whether it stays open."""
        if run.is_fresh and any(self._holds(each, run) for each in edge.not_next):
            return False, False
        if edge.until is not None and self._holds(edge.until, run):
            return False, False
        is_taken = edge.to != END and self._holds(edge.condition, run)
        if edge.contiguity == STRICT or (is_taken and edge.contiguity != ANY):
            return is_taken, False
        return is_taken, not any(self._holds(each, run) for each in edge.not_between)

    def _holds(self, condition: int, run: Run | None) -> bool:
        found = self._verdicts[condition]
        return self._ask(self, condition, self._row, run) if found is None else found

    def _complete(self, grown: list[Run], time_us: int, out: list[Outcome]) -> None:
        done = [
            Run(run.rows, run.places, 0, is_fresh=False, state=AT_ROW)
            for run in grown
            if self._places[run.places[-1]].is_complete
        ]
        if done:
            self._settle(self._distinct(done), time_us, out)

    # ------------------------------------------------------------ matches

    def _steps(self, run: Run) -> tuple[int, ...]:
        return tuple(self._places[place].step for place in run.places)

    def _distinct(self, runs: list[Run]) -> list[Run]:
        """One of those that gave the same rows to the same steps, as repeated groups may in several
        ways."""
        if len(runs) < 2:
            return runs
        return list({(run.rows, self._steps(run)): run for run in reversed(runs)}.values())[::-1]

    def rank(self, run: Run) -> tuple[Any, ...]:
        """Which of several matches comes first: by the first row, then what is complete first,
        then the longest."""
        return run.rows[0], run.state, run.rows[-1], -len(run.rows), run.rows, self._steps(run)

    def _settle(self, done: list[Run], time_us: int, out: list[Outcome]) -> None:
        """Emit what is complete, as far as nothing that comes first may still be."""
        if self._skip == NONE:
            out.extend(
                self._outcome(run, time_us, is_match=True) for run in sorted(done, key=self.rank)
            )
            return
        self.held += done
        self.release(time_us, out)

    def release(self, time_us: int | None, out: list[Outcome]) -> None:
        """Emit matches that have waited, as far as no run is left that began before. Without a
        time they have that of their last row."""
        while self.held:
            first = min(self.held, key=self.rank)
            if self.running and self.running[0].rows[0] < first.rows[0]:
                return
            self.is_changed = True
            at_us = self.times[first.rows[-1]] if time_us is None else time_us
            out.append(self._outcome(first, at_us, is_match=True))
            self._skip_over(first)

    def _skip_over(self, match: Run) -> None:
        """Forget what may be no match beside this one."""
        last = match.rows[0] if self._skip == TO_NEXT else match.rows[-1]
        # What began before has no match any more that could come first.
        self.running = [run for run in self.running if run.rows[0] > last]
        self.held = [run for run in self.held if run.rows[0] > last]

    def _outcome(self, run: Run, time_us: int, *, is_match: bool) -> Outcome:
        rows = [self.rows[number] for number in run.rows]
        # A run that would last beyond the end of time is over then.
        return Outcome(run, rows, self.times[run.rows[0]], min(time_us, END_US), is_match)

    # ------------------------------------------------------------ time

    def expire(self, until_us: int, out: list[Outcome]) -> None:
        """End the runs whose time is over: those that began first come first."""
        while (due_us := self.due_us()) is not None and due_us <= until_us:
            self.is_changed = True
            first = self.running[0].rows[0]
            over = [run for run in self.running if run.rows[0] == first]
            self.running = self.running[len(over) :]
            done = self._distinct([run for run in over if self._is_done(run)])
            if not done or self._skip == NONE:
                partial = [
                    run
                    for run in over
                    if not self._is_done(run) and not self._places[run.places[-1]].is_complete
                ]
                out.extend(
                    self._outcome(run, due_us, is_match=False) for run in self._distinct(partial)
                )
            for run in done:
                run.state, run.open = AT_END, 0
            self._settle(done, due_us, out)

    def _is_done(self, run: Run) -> bool:
        """Whether it waits for nothing but that its time is over."""
        place = self._places[run.places[-1]]
        return place.waits_for_end and bool(run.open >> len(place.edges) - 1 & 1)

    def end(self, out: list[Outcome]) -> None:
        """No row comes any more: what is partial stays so."""
        self.is_changed = self.is_changed or bool(self.running or self.held)
        self.running = []
        self.release(None, out)

    # ------------------------------------------------------------ what is kept

    def restore(self, rows: list[Any], times: list[int], runs: Sequence[Any]) -> None:
        """Go on from what ``kept`` gave."""
        self.rows, self.times = rows, times
        for numbers, places, open, is_fresh, state in runs:
            run = Run(tuple(numbers), tuple(places), open, is_fresh, state)
            (self.running if state == RUNNING else self.held).append(run)
        self.was_due_us = self.due_us()
        self.is_settled = not any(run.is_fresh for run in self.running)

    def kept(self) -> tuple[list[Any], list[int], list[tuple[Any, ...]]] | None:
        """The rows that runs have taken, their times, and the runs; None where there are none."""
        runs = [*self.running, *self.held]
        if not runs:
            return None
        used = sorted({number for run in runs for number in run.rows})
        places = {number: place for place, number in enumerate(used)}
        kept = [
            (tuple(places[n] for n in run.rows), run.places, run.open, run.is_fresh, run.state)
            for run in runs
        ]
        return [self.rows[n] for n in used], [self.times[n] for n in used], kept
