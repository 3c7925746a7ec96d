"""Spans in every backend hold what dictionaries hold, through cuts, merges and rescales."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.snapshot.manifest import SubtaskState
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.kinds import SPANS
from mainstay.state.span_places import SpanPlaces
from mainstay.state.values import ValueType
from tests.contract.conftest import (
    IN_MEMORY,
    MAX_PARALLELISM,
    BackendUnderTest,
    OpenBackend,
    opening,
)
from tests.contract.test_namespaces import Declared, sums
from tests.searching import examples

KEYS = {"string": ["", "a", "ab", "b", None], "long": [0, 1, -(1 << 62), 7, None]}
STARTS = [-(1 << 62), -1, 0, 7]
Pair = tuple[Any, int]


class DeclaredSpans(Declared):
    def info(self) -> StateInfo:
        return replace(super().info(), kind=SPANS)


class Job:
    """The subtasks of an operator, and the same spans in a dictionary."""

    def __init__(self, opened: OpenBackend, key: str) -> None:
        self.opened, self.key = opened, key
        self.states = {"spans": DeclaredSpans(sums().state(), "long")}
        self.model: dict[Pair, int] = {}
        self.backends = opened.all(self.states, 2, key)
        self.snapshot()

    def owner_of(self, key: Any) -> BackendUnderTest:
        group = int(key_groups([ValueType.of(self.key).to_array([key])], MAX_PARALLELISM)[0])
        return next(b for b in self.backends if group <= b.keyed.owner.groups.last)

    def do(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])

    def write(self, pairs: list[Pair], number: int) -> None:
        """Some pairs at once: those that are there are put, the others added."""
        for backend in self.backends:
            own = [pair for pair in dict.fromkeys(pairs) if self.owner_of(pair[0]) is backend]
            spans = backend.states.spans
            there = self.places(spans, [pair for pair in own if pair in self.model])
            if len(there):
                spans.put(there, [(np.full(len(there), number), None)])
            new = [pair for pair in own if pair not in self.model]
            if new:
                keys, codes = self.coded([key for key, _ in new])
                starts = np.array([start for _, start in new])
                spans.add(keys, codes, starts, [(np.full(len(new), number), None)])
            self.model |= dict.fromkeys(own, number)

    def remove(self, pairs: list[Pair]) -> None:
        for backend in self.backends:
            own = [pair for pair in dict.fromkeys(pairs) if self.owner_of(pair[0]) is backend]
            own = [pair for pair in own if pair in self.model]
            if own:
                backend.states.spans.remove(self.places(backend.states.spans, own))
                for pair in own:
                    del self.model[pair]

    def coded(self, keys: list[Any]) -> tuple[pa.Array, Any]:
        distinct = list(dict.fromkeys(keys))
        return ValueType.of(self.key).to_array(distinct), np.array([*map(distinct.index, keys)])

    def places(self, spans: Any, pairs: list[Pair]) -> Any:
        if not pairs:
            return np.empty(0, np.int64)
        distinct = list(dict.fromkeys(key for key, _ in pairs))
        codes, places = spans.of(ValueType.of(self.key).to_array(distinct))
        starts = spans.starts(places).tolist()
        found = {
            (distinct[code], start): place
            for code, start, place in zip(codes.tolist(), starts, places.tolist(), strict=True)
        }
        # Of the keys that were asked about, all spans and no others.
        assert sorted(map(repr, found)) == sorted(
            repr(pair) for pair in self.model if pair[0] in distinct
        )
        return np.array([found[pair] for pair in pairs])

    def freeze(self) -> None:
        """An epoch that is begun and not stored: the next one has it, too."""
        for backend in self.backends:
            backend.freeze()

    def snapshot(self) -> None:
        self.epoch: list[SubtaskState] = [backend.snapshot() for backend in self.backends]
        self.kept = copy.deepcopy(self.model)

    def compact(self) -> None:
        for backend in self.backends:
            backend.compact()

    def restore(self, parallelism: int, rewrite: bool) -> None:
        self.backends = self.opened.restore(
            self.states, self.epoch, parallelism, self.key, rewrite=rewrite
        )
        self.model = copy.deepcopy(self.kept)
        self.epoch = [backend.snapshot() for backend in self.backends]

    def check(self) -> None:
        seen, stored = {}, {}
        for backend in self.backends:
            spans = backend.states.spans
            places = spans.all()
            keys, starts = spans.keys(places).to_pylist(), spans.starts(places).tolist()
            ((totals, _),) = spans.columns(places)
            seen |= dict(zip(zip(keys, starts, strict=True), totals.tolist(), strict=True))
            stored |= {k: next(iter(v)) for k, v in backend.keyed.backend.entries("spans")}
            for key, start in stored:
                if self.owner_of(key) is backend:
                    assert tuple(backend.at(key, start).spans.get()) == (self.model[key, start],)
        assert seen == self.model
        assert stored == self.model


def steps(key: str) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    pair = st.tuples(st.sampled_from(KEYS[key]), st.sampled_from(STARTS))
    pairs = st.lists(pair, min_size=1, max_size=6)
    writes = st.tuples(st.just("write"), pairs, st.integers(0, 99))
    removes = st.tuples(st.just("remove"), pairs)
    events = st.one_of(
        st.sampled_from([("freeze",), ("snapshot",), ("compact",)]),
        st.tuples(st.just("restore"), st.sampled_from([1, 2, 3]), st.booleans()),
    )
    return st.lists(st.one_of(writes, removes, writes, events), max_size=25)


@pytest.mark.parametrize(
    ("backend", "key"),
    [
        *(pytest.param(*each.values, "string", marks=each.marks) for each in IN_MEMORY),
        ("heap", "long"),
        ("rocksdb", "long"),
    ],
)
def test_a_backend_holds_what_a_dictionary_holds(backend: str, key: str) -> None:
    @settings(max_examples=examples(25), deadline=None)
    @given(steps(key))
    def check(done: list[tuple[Any, ...]]) -> None:
        opened = opening(backend)
        try:
            job = Job(opened, key)
            for step in done:
                job.do(step)
            job.check()
            for number in (1, 2):
                job.write([(each, start) for each in KEYS[key] for start in STARTS], number)
                job.snapshot()
            job.remove([(each, 0) for each in KEYS[key]])
            job.snapshot()
            job.compact()
            job.snapshot()
            job.restore(3, rewrite=False)
            job.check()
        finally:
            for member in opened.opened:
                member.release()

    check()


def test_keys_without_spans_are_forgotten_and_places_taken_again() -> None:
    places = SpanPlaces(ValueType.of("long"))
    for first in range(0, 100_000, 1000):
        keys = pa.array(np.arange(first, first + 1000))
        added = places.add(keys, np.arange(1000), np.zeros(1000, np.int64))
        if first:
            places.remove(added)
        if places.has_many_dead:
            places.number_anew()
    assert places.live == 1000
    assert places.count == 2000
    assert len(places._slots) < 10_000
    codes, found = places.of(pa.array(np.arange(500, 1500)))
    assert places.keys(found).to_pylist() == list(range(500, 1000))
    assert codes.tolist() == list(range(500))
