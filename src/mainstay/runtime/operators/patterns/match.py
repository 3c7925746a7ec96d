"""Matching patterns: what operators share, whatever order they take the rows of a key in.

Conditions that are expressions are evaluated for many rows at a time. Rows of keys that have no
partial match, and begin none, go no further; all others are looked at one by one.

This is a hot file (benchmarks/patterns.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mainstay.runtime.operators.base import Operator, OperatorContext, user_error
from mainstay.runtime.operators.keyed import KeyReader
from mainstay.runtime.operators.made_for import check_made_for
from mainstay.runtime.operators.patterns.automaton import automaton_of
from mainstay.runtime.operators.patterns.matched import Match, plain_row
from mainstay.runtime.operators.patterns.runs import Outcome, Run, Runs
from mainstay.runtime.operators.rows import collect
from mainstay.runtime.operators.taken import Taking
from mainstay.runtime.patterns import PatternSpec
from mainstay.runtime.side_names import TIMED_OUT
from mainstay.runtime.spec import KeySpec
from mainstay.runtime.watermarks import END_US
from mainstay.schema import batch_to_rows, rows_to_batches
from mainstay.schema.evaluation import evaluated_all
from mainstay.state.grouping import Grouper
from mainstay.state.keyed import ValueHandle
from mainstay.state.timer_handles import TimerHandle, moment
from mainstay.state.values import Keys

PARTIAL, DUE, WAITING = "partial", "due", "waiting"
"""The states: partial matches, when the time of the first one is over, and rows that wait."""
SLICE_KEYS = 1024

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class MatchRows(Operator):
    """Emits what a function makes of the matches of each key."""

    may_be_cut = True

    def __init__(
        self,
        key: KeySpec,
        carried: pa.Schema,
        schema: pa.Schema,
        plain: pa.Schema,
        pattern: PatternSpec,
        function: Any,
    ) -> None:
        self.reader = KeyReader(key, carried)
        self.pattern = pattern
        self._schema = schema
        self._taking = Taking.of(schema)
        self._plain = plain
        self._function = function
        self._to_plain = partial(plain_row, keys=len(key.columns))
        self._grouper = Grouper()
        self._automaton = automaton_of(pattern.members)
        self._declared = pattern.taken
        self._conditions = pattern.conditions
        self._steps = [place.step for place in self._automaton.places]

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.keyed is not None
        self._partial: ValueHandle = context.keyed.handles[PARTIAL]
        self._due: TimerHandle | None = context.keyed.handles.get(DUE)
        if self._due is not None:
            self._due.restore(context.keyed.entries(DUE))
        self._fired_timers = 0
        check_made_for(context, self.pattern.shape(), is_empty=self._is_empty)

    def _is_empty(self) -> bool:
        """Whether no partial match is kept."""
        return next(self._partial.survey(), None) is None

    # ------------------------------------------------------------ rows

    def verdicts(self, rows: pa.RecordBatch) -> list[Mask | None]:
        """For each step which rows it takes, where an expression says so."""
        found: list[Mask | None] = [None] * len(self._conditions)
        asked = [n for n, each in enumerate(self._conditions) if each.expression is not None]
        for number, each in enumerate(self._conditions):
            if each.expression is None and each.function is None:
                found[number] = np.ones(rows.num_rows, np.bool_)
        if asked and rows.num_rows:
            expressions = [self._conditions[number].expression for number in asked]
            try:
                columns = evaluated_all(expressions, pa.Table.from_batches([rows]))
            except pa.ArrowException as error:
                raise user_error(self.context, error) from error
            for number, column in zip(asked, columns, strict=True):
                found[number] = column.fill_null(False).to_numpy(zero_copy_only=False)
        return found

    def match(
        self, keys: pa.Array, rows: pa.RecordBatch, times: Times, masks: Sequence[Mask | None]
    ) -> None:
        """Match rows that come next, each for its key."""
        groups = self._grouper.group(keys)
        codes = np.arange(len(keys)) if groups.codes is None else groups.codes
        distinct = Keys(self.reader.key_type.from_array(keys.take(pa.array(groups.rows))))
        kept = self._partial.get_many(distinct)
        chosen = self._chosen(codes, kept, masks)
        if not len(chosen):
            return
        runs: dict[int, Runs] = {}
        out: list[tuple[Any, Outcome]] = []
        found: list[Outcome] = []
        values = batch_to_rows(rows.take(pa.array(chosen)), self.reader.row)
        judged = [[None] * len(chosen) if m is None else m[chosen].tolist() for m in masks]
        try:
            for code, row, time_us, verdicts in zip(
                codes[chosen].tolist(),
                values,
                times[chosen].tolist(),
                zip(*judged, strict=True),
                strict=True,
            ):
                own = runs.get(code)
                if own is None:
                    own = runs[code] = self._runs(distinct[code], kept[code])
                elif own.is_settled and True not in verdicts and None not in verdicts:
                    continue
                own.take(row, time_us, verdicts, found)
                if found:
                    out += [(distinct[code], each) for each in found]
                    found.clear()
        except BaseException as error:
            raise user_error(self.context, error) from error
        self._keep(Keys(distinct[code] for code in runs), list(runs.values()))
        self._emit(out)

    def _chosen(self, codes: Times, kept: Sequence[Any], masks: Sequence[Mask | None]) -> Times:
        """The rows of keys that have a partial match, or from the first that begins one on."""
        begins = np.zeros(len(codes), np.bool_)
        for edge in self._automaton.start:
            mask = masks[edge.condition]
            begins |= True if mask is None else mask
        first = np.full(len(kept), len(codes), np.int64)
        beginning = np.flatnonzero(begins)[::-1]
        first[codes[beginning]] = beginning
        has_some = np.fromiter((each is not None for each in kept), bool, len(kept))
        first[has_some] = 0
        return np.flatnonzero(np.arange(len(codes)) >= first[codes])

    def _runs(self, key: Any, kept: Any) -> Runs:
        pattern = self.pattern
        runs = Runs(key, self._automaton, pattern.within_us, pattern.skip, self._ask)
        if kept is not None:
            runs.restore(kept.rows, kept.times, kept.runs)
        return runs

    def _ask(self, runs: Runs, step: int, row: Any, run: Run | None) -> bool:
        """Whether a function of the author takes a row for a step."""
        condition = self._conditions[step]
        assert condition.function is not None
        if not condition.sees_match:
            return bool(condition.function(row))
        numbers = () if run is None else run.rows
        places = () if run is None else run.places
        start_us = runs.times[numbers[0]] if numbers else 0
        time_us = runs.times[numbers[-1]] if numbers else 0
        rows = [runs.rows[number] for number in numbers]
        return bool(condition.function(row, self._match(runs.key, rows, places, start_us, time_us)))

    def _match(
        self, key: Any, rows: Sequence[Any], places: Sequence[int], start_us: int, time_us: int
    ) -> Match:
        steps = [self._steps[place] for place in places]
        return Match(self._declared, key, rows, steps, start_us, time_us)

    # ------------------------------------------------------------ time

    def expire(self, until_us: int) -> Iterator[None]:
        """End the partial matches whose time is over, a slice of keys at a time."""
        due = self._due
        while due is not None and (first := due.due_us()) is not None and first <= until_us:
            keys, _ = due.take_many(until_us, SLICE_KEYS)
            self._fired_timers += len(keys)
            self._end(Keys(keys), until_us)
            yield

    def end(self) -> Iterator[None]:
        """No row comes any more: end the partial matches that no time ends."""
        surveyed = self._partial.survey()
        while keys := Keys(key for key, _ in islice(surveyed, SLICE_KEYS)):
            self._end(keys, None)
            yield

    def _end(self, keys: Keys, until_us: int | None) -> None:
        out: list[tuple[Any, Outcome]] = []
        ended: list[Runs] = []
        for key, kept in zip(keys, self._partial.get_many(keys), strict=True):
            runs, found = self._runs(key, kept), list[Outcome]()
            if until_us is None:
                runs.end(found)
            else:
                runs.was_due_us = None  # its timer was taken
                runs.expire(until_us, found)
            out += [(key, each) for each in found]
            ended.append(runs)
        self._keep(keys, ended)
        self._emit(out)

    # ------------------------------------------------------------ what is kept

    def _keep(self, keys: Keys, runs: list[Runs]) -> None:
        """Store what has changed."""
        pairs = list(zip(keys, runs, strict=True))
        changed = [(key, own) for key, own in pairs if own.is_changed]
        self._partial.put_many(Keys(key for key, _ in changed), [own.kept() for _, own in changed])
        if self._due is None:
            return
        times = [(key, own.due_us()) for key, own in pairs if own.due_us() != own.was_due_us]
        self._due.set_many(
            Keys(key for key, _ in times),
            [None if time is None else moment(min(time, END_US)) for _, time in times],
        )

    @property
    def timer_counts(self) -> tuple[int, int] | None:
        if getattr(self, "_due", None) is None:
            return None
        assert self._due is not None
        return self._due.index.count, self._fired_timers

    # ------------------------------------------------------------ results

    def _emit(self, found: list[tuple[Any, Outcome]]) -> None:
        """Emit matches, and the partial ones whose time was over."""
        if not found:
            return
        matches: list[Any] = []
        timed_out: list[Any] = []
        where = f"operator {self.context.uid!r}"
        function = self._function
        try:
            for key, each in found:
                match = self._match(key, each.rows, each.run.places, each.start_us, each.time_us)
                if not each.is_match:
                    timed_out.append(self._to_plain(match))
                elif function is None:
                    matches.append(self._to_plain(match))
                else:
                    collect(function(match), matches, self._taking)
            emitted = list(rows_to_batches(matches, self._schema, where)) if matches else []
        except BaseException as error:
            raise user_error(self.context, error, function=function, may_list=True) from error
        for batch in emitted:
            self.out(batch)
        if timed_out:
            for batch in rows_to_batches(timed_out, self._plain, where):
                self.sides[TIMED_OUT](batch)
