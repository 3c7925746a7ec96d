"""An operator that counts distinct values, in any backend, and the same values in Python sets."""

from __future__ import annotations

import copy
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from mainstay.schema import to_schema
from mainstay.snapshot.manifest import SubtaskState
from mainstay.snapshot.since import Since
from mainstay.state.accumulating import accumulating, result
from mainstay.state.aggregates import aggregation_of
from mainstay.state.grouping import Grouper
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.kinds import SPANS
from tests.contract.conftest import MAX_PARALLELISM, BackendUnderTest, OpenBackend
from tests.contract.test_namespaces import Declared

SCHEMA = to_schema("k string, v long, s string")
AGGREGATION = aggregation_of(
    {
        "n": ms.count(),
        "numbers": ms.count_distinct("v"),
        "texts": ms.count_distinct("s", where=ms.col("v") > 20),
    },
    SCHEMA,
)
PARTS = [accumulating(each) for each in AGGREGATION.accumulators]
KEYS = ["", "a", "b", "ä", None]
PANES = [-7, 0, 5]
Kept = tuple[int, set[int], set[str]]


class Running(Declared):
    """Without a namespace."""

    def __init__(self) -> None:
        super().__init__(AGGREGATION.state(), "long")

    def info(self) -> StateInfo:
        return self.state


class Spans(Declared):
    def info(self) -> StateInfo:
        return replace(super().info(), kind=SPANS)


STATES: dict[str, Any] = {
    "columns": Running(),
    "panes": Declared(AGGREGATION.state(), "long"),
    "spans": Spans(AGGREGATION.state(), "long"),
}


class Job:
    """The subtasks of an operator with one state, of which pairs of a key and a pane are kept."""

    def __init__(self, opened: OpenBackend, form: str) -> None:
        self.opened, self.form = opened, form
        self.states = {"sets": STATES[form]}
        self.model: dict[Any, Kept] = {}
        self.kept: dict[Any, Kept] = {}
        self.panes = [0] if form == "columns" else PANES
        self.backends = opened.all(self.states, 2)
        self.snapshot()

    def owner_of(self, key: Any) -> BackendUnderTest:
        group = int(key_groups([pa.array([key], pa.string())], MAX_PARALLELISM)[0])
        return next(b for b in self.backends if group <= b.keyed.owner.groups.last)

    # ------------------------------------------------------------ rows

    def add(self, rows: list[tuple[Any, int, int, str | None]]) -> None:
        """Rows of a key, a pane, a number and a text."""
        for backend in self.backends:
            own = [row for row in rows if self.owner_of(row[0]) is backend]
            if own:
                self._fold(backend, own)
        for key, pane, number, text in rows:
            count, numbers, texts = self.model.get((key, pane), (0, set(), set()))
            numbers.add(number)
            if text is not None and number > 20:
                texts.add(text)
            self.model[key, pane] = (count + 1, numbers, texts)

    def _fold(self, backend: BackendUnderTest, rows: list[Any]) -> None:
        keys, panes, numbers, texts = zip(*rows, strict=True)
        types = SCHEMA.types
        columns = [pa.array(c, t) for c, t in zip((keys, numbers, texts), types, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        by_key = Grouper().group(batch.column(0))
        codes = np.arange(len(rows)) if by_key.codes is None else by_key.codes
        distinct = batch.column(0).take(pa.array(by_key.rows))
        words = np.array(panes, np.int64)
        groups = Grouper().group(pa.array(codes * 100 + words + 50))
        partials = [part.combine_rows(batch, groups) for part in PARTS]
        state = backend.states.sets
        if self.form == "columns":
            keys = batch.column(0).take(pa.array(groups.rows))
            self._check_emitted(keys, state.fold(keys, partials), rows)
        elif self.form == "panes":
            state.fold_into(distinct, codes[groups.rows], words[groups.rows], partials)
        else:
            self._put(state, distinct, codes[groups.rows], words[groups.rows], partials)

    def _check_emitted(self, keys: pa.Array, kept: Any, rows: list[Any]) -> None:
        results = [result(output, kept, PARTS).to_pylist() for output in AGGREGATION.outputs]
        for key, n, numbers, texts in zip(keys.to_pylist(), *results, strict=True):
            own = [row for row in rows if row[0] == key]
            before = self.model.get((key, 0), (0, set(), set()))
            assert n == before[0] + len(own)
            assert numbers == len(before[1] | {row[2] for row in own})
            some = {row[3] for row in own if row[2] > 20} - {None}
            assert texts == len(before[2] | some)

    def _put(self, spans: Any, keys: pa.Array, codes: Any, starts: Any, partials: Any) -> None:
        """What a session does: it reads spans, merges, and puts them."""
        columns = [part.apart(c) for part, c in zip(PARTS, partials, strict=True)]
        of, places = spans.of(keys)
        known = zip(of.tolist(), spans.starts(places).tolist(), strict=True)
        found = dict(zip(known, places.tolist(), strict=True))
        pairs = list(zip(codes.tolist(), starts.tolist(), strict=True))
        there = np.array([pair in found for pair in pairs], np.bool_)
        at = np.array([found[pair] for pair in pairs if pair in found], np.int64)
        if len(at):
            old = spans.columns(at)
            merged = [
                part.merge(kept, _some(new, there))
                for part, kept, new in zip(PARTS, old, columns, strict=True)
            ]
            spans.put(at, merged)
        if not there.all():
            spans.add(keys, codes[~there], starts[~there], [_some(c, ~there) for c in columns])

    def drop(self, pane: int) -> None:
        """A pane goes as a whole, or its spans one by one."""
        if self.form == "columns":
            return
        for backend in self.backends:
            state = backend.states.sets
            if self.form == "panes":
                if pane in state.panes():
                    state.drop(pane)
            else:
                places = state.all()
                state.remove(places[state.starts(places) == pane])
        self.model = {pair: kept for pair, kept in self.model.items() if pair[1] != pane}

    # ------------------------------------------------------------ epochs

    def freeze(self) -> None:
        """An epoch that is begun and given up: the next one has what it was to hold."""
        for backend in self.backends:
            backend.freeze()
        self.is_given_up = True

    def snapshot(self) -> None:
        self.epoch: list[SubtaskState] = [backend.snapshot() for backend in self.backends]
        self.kept = copy.deepcopy(self.model)
        self.completed = self.backends[0].epoch
        self.is_given_up = False

    def late(self, rows: list[Any]) -> None:
        """Rows that come between a cut and its encoding."""
        cuts = [backend.freeze() for backend in self.backends]
        self.kept = copy.deepcopy(self.model)
        self.add(rows)
        self.epoch = [b.write(cut) for b, cut in zip(self.backends, cuts, strict=True)]
        self.completed = self.backends[0].epoch
        self.is_given_up = False

    def compact(self) -> None:
        """Once an epoch is complete, segments are merged."""
        if self.is_given_up:
            return
        for backend in self.backends:
            backend.compact()

    def restore(self, parallelism: int, *, rewrite: bool = False) -> None:
        self.opened.since = Since(self.completed, self.opened.attempt)
        self.backends = self.opened.restore(self.states, self.epoch, parallelism, rewrite=rewrite)
        self.model = copy.deepcopy(self.kept)
        self.snapshot()

    # ------------------------------------------------------------ what is kept

    def check(self) -> None:
        found = {}
        for backend in self.backends:
            for stored, row in backend.keyed.backend.entries("sets"):
                pair = (stored, 0) if self.form == "columns" else stored
                n, numbers, texts = row
                assert len(set(numbers)) == len(numbers), "a value is kept twice"
                assert len(set(texts)) == len(texts), "a value is kept twice"
                found[pair] = (n, set(numbers), set(texts))
        assert found == self.model


def _some(column: Any, which: Any) -> Any:
    values, valid = column
    return values[which], None if valid is None else valid[which]


def drawn_rows(random: Random, job: Job, most: int) -> list[Any]:
    """Rows whose values come again, of a few keys and panes."""
    width = random.choice([30, 300, 3000])
    keys = random.sample(KEYS, random.randint(1, 3))
    return [
        (
            random.choice(keys),
            random.choice(job.panes),
            random.randrange(width),
            random.choice([None, f"t{random.randrange(width)}"]),
        )
        for _ in range(random.randint(1, most))
    ]


def trial(opened: OpenBackend, form: str, seed: int, steps: int = 30) -> None:
    """Drawn steps, after which all that is kept is what sets hold, and so after a restore."""
    random = Random(f"{form} {seed}")
    job = Job(opened, form)
    try:
        for _ in range(steps):
            _step(job, random)
        job.check()
        job.add(drawn_rows(random, job, 50))
        job.snapshot()
        job.compact()
        job.add(drawn_rows(random, job, 50))
        job.snapshot()
        job.restore(3)
        job.check()
    finally:
        for member in opened.opened:
            member.release()


def _step(job: Job, random: Random) -> None:
    kind = random.choices(
        ["add", "late", "freeze", "snapshot", "compact", "restore", "drop"],
        [10, 3, 3, 4, 2, 1, 1],
    )[0]
    if kind in ("add", "late"):
        getattr(job, kind)(drawn_rows(random, job, random.choice([5, 200])))
    elif kind == "restore":
        job.restore(random.choice([1, 2, 3]), rewrite=random.random() < 0.3)
        job.check()
    elif kind == "drop":
        job.drop(random.choice(PANES))
    else:
        getattr(job, kind)()
