"""Whatever is done to states by key and namespace, every backend holds what dictionaries hold."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.schema import to_schema
from mainstay.snapshot.manifest import SubtaskState
from mainstay.state.declaration import ListState, MapState, ReducingState, ValueState
from mainstay.state.hashing import key_groups
from mainstay.state.stored_key import StoredKey
from mainstay.state.values import ValueType
from tests.contract.conftest import (
    IN_MEMORY,
    MAX_PARALLELISM,
    BackendUnderTest,
    OpenBackend,
    opening,
)
from tests.contract.test_namespaces import Declared, sums
from tests.contract.test_rows_by_pane import rows_state
from tests.namespaces import namespaced
from tests.searching import examples

KEYS = ["", "a", "ab", "b", None]
NAMESPACES = {"long": [-(1 << 62), -1, 0, 7], "string": ["", "a", "b", "\0"]}
Pair = tuple[Any, Any]


def declared(namespace: str) -> dict[str, Any]:
    states: dict[str, Any] = {
        "value": ValueState("long"),
        "total": ReducingState("long", operator.add),
        "items": ListState("long"),
        "entries": MapState("string", "long"),
    }
    by_namespace = {name: namespaced(state, namespace) for name, state in states.items()}
    return {
        **by_namespace,
        **({"rows": rows_state("n long")} if namespace == "long" else {}),
        "aggregates": Declared(sums().state(), namespace),
        # One without, so that both kinds of row keys lie in one database.
        "plain": ValueState("long"),
    }


class Job:
    """The subtasks of an operator, and the same state in dictionaries by pair."""

    def __init__(self, opening: OpenBackend, namespace: str) -> None:
        self.opening, self.namespace = opening, namespace
        self.states = declared(namespace)
        self.model: dict[str, dict[Any, Any]] = {name: {} for name in self.states}
        self.backends = opening.all(self.states, 2)
        self.epoch = [backend.snapshot() for backend in self.backends]
        self.kept = copy.deepcopy(self.model)

    def owner_of(self, key: Any) -> BackendUnderTest:
        group = int(key_groups([ValueType.of("string").to_array([key])], MAX_PARALLELISM)[0])
        owners = (b for b in self.backends if b.keyed.owner.groups.first <= group)
        return next(b for b in owners if group <= b.keyed.owner.groups.last)

    def do(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])

    def write(self, pair: Pair, number: int) -> None:
        states = self.owner_of(pair[0]).at(*pair)
        states.value.update(number)
        states.plain.update(number)
        self.model["value"][pair] = number
        self.model["plain"][pair[0]] = number

    def add(self, pair: Pair, number: int) -> None:
        states = self.owner_of(pair[0]).at(*pair)
        states.items.add(number)
        states.total.add(number)
        self.model["items"].setdefault(pair, []).append(number)
        self.model["total"][pair] = self.model["total"].get(pair, 0) + number

    def put(self, pair: Pair, number: int) -> None:
        name = "xyz"[number % 3]
        self.owner_of(pair[0]).at(*pair).entries.put(name, number)
        self.model["entries"].setdefault(pair, {})[name] = number

    def remove(self, pair: Pair, number: int) -> None:
        name = "xyz"[number % 3]
        self.owner_of(pair[0]).at(*pair).entries.remove(name)
        entries = self.model["entries"].get(pair, {})
        entries.pop(name, None)
        if not entries:
            self.model["entries"].pop(pair, None)

    def fold(self, pair: Pair, number: int) -> None:
        stored = StoredKey.of(ValueType.of("string"), ValueType.of(self.namespace))
        numbers = np.array([number], np.int64)
        backend = self.owner_of(pair[0])
        backend.states.aggregates.fold(stored.type.to_array([pair]), [(numbers, None)])
        found = self.model["aggregates"]
        found[pair] = (found.get(pair, (0,))[0] + number,)
        if self.namespace == "long":
            rows = pa.RecordBatch.from_arrays([pa.array(numbers)], schema=to_schema("n long"))
            backend.states.rows.append(pa.array([pair[0]], pa.string()), rows, pair[1])
            self.model["rows"].setdefault(pair, []).append((number,))

    def drop(self, namespace: Any) -> None:
        """A pane with all its keys, where it is kept in panes."""
        for backend in self.backends:
            for name in ("aggregates", "rows") if self.namespace == "long" else ():
                state, found = getattr(backend.states, name), self.model[name]
                if namespace in state.panes():
                    state.drop(namespace)
                    owned = [pair for pair in found if self.owner_of(pair[0]) is backend]
                    for pair in owned:
                        if pair[1] == namespace:
                            del found[pair]

    def clear(self, pair: Pair, name: str) -> None:
        getattr(self.owner_of(pair[0]).at(*pair), name).clear()
        self.model[name].pop(pair[0] if name == "plain" else pair, None)

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
        self.backends = self.opening.restore(self.states, self.epoch, parallelism, rewrite=rewrite)
        self.model = copy.deepcopy(self.kept)
        self.epoch = [backend.snapshot() for backend in self.backends]

    def end_with_a_merge(self) -> None:
        """Restore what was merged, of at least two segments that have changes of each key."""
        first, second, *_ = NAMESPACES[self.namespace]
        for namespace in (first, second):
            for number, key in enumerate(KEYS):
                for change in (self.write, self.add, self.put, self.fold):
                    change((key, namespace), number)
            self.snapshot()
        self.compact()
        self.snapshot()
        self.restore(3, rewrite=False)

    def check(self) -> None:
        found: dict[str, dict[Any, Any]] = {name: {} for name in self.states}
        for backend in self.backends:
            for name in self.states:
                if name == "aggregates":
                    found[name].update(
                        {k: tuple(v) for k, v in backend.keyed.backend.entries(name)}
                    )
                else:
                    found[name].update(backend.contents(name))
        assert found == self.model
        if self.namespace == "long":
            assert self.in_panes() == self.model["aggregates"]

    def in_panes(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for backend in self.backends:
            aggregates = backend.states.aggregates
            assert aggregates.panes() == sorted(aggregates.panes())
            for namespace in aggregates.panes():
                keys, ((totals, _),) = aggregates.pane(namespace)
                assert len(keys)
                for key, total in zip(keys.to_pylist(), totals.tolist(), strict=True):
                    found[key, namespace] = (total,)
        return found


def steps(namespace: str) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    pairs = st.tuples(st.sampled_from(KEYS), st.sampled_from(NAMESPACES[namespace]))
    writes = st.sampled_from(["write", "add", "put", "remove", "fold"])
    cleared = st.sampled_from(["value", "total", "items", "entries", "plain"])
    changes = st.one_of(
        st.tuples(writes, pairs, st.integers(0, 99)), st.tuples(st.just("clear"), pairs, cleared)
    )
    drops = st.tuples(st.just("drop"), st.sampled_from(NAMESPACES[namespace]))
    events = st.one_of(
        drops,
        st.sampled_from([("freeze",), ("snapshot",), ("compact",)]),
        st.tuples(st.just("restore"), st.sampled_from([1, 2, 3]), st.booleans()),
    )
    return st.lists(st.one_of(changes, changes, changes, events), max_size=25)


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("backend", IN_MEMORY)
def test_a_backend_holds_what_dictionaries_hold(backend: str, namespace: str) -> None:
    @settings(max_examples=examples(20), deadline=None)
    @given(steps(namespace))
    def check(done: list[tuple[Any, ...]]) -> None:
        opened = opening(backend)
        try:
            job = Job(opened, namespace)
            for step in done:
                job.do(step)
            job.check()
            job.end_with_a_merge()
            job.check()
        finally:
            for member in opened.opened:
                member.release()

    check()
