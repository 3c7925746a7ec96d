"""What a segment says of a pane that dies does not grow with the keys of the pane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.runtime.coordinator.recovery import schema_of
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.upgrading import StoredAs
from mainstay.schema import to_schema
from mainstay.snapshot.manifest import SegmentRef, SubtaskState
from mainstay.snapshot.since import Since
from mainstay.snapshot.statefile import open_state_file
from mainstay.state.segments import read_chain
from mainstay.state.whole import to_whole
from tests.contract.conftest import IMPLEMENTATIONS, BackendUnderTest, OpenBackend, opening
from tests.contract.test_namespaces import Declared, sums
from tests.contract.test_rows_by_pane import rows_state

MANY = 500
Contents = dict[Any, Any]


def states() -> dict[str, Any]:
    return {"panes": Declared(sums().state(), "long"), "rows": rows_state("at long")}


def fill(backend: BackendUnderTest, pane: int, keys: range) -> None:
    """A sum and a row for each key."""
    names = pa.array([f"k{number}" for number in keys])
    numbers = np.array(keys, np.int64)
    panes = np.full(len(keys), pane, np.int64)
    backend.states.panes.fold_into(names, np.arange(len(keys)), panes, [(numbers, None)])
    rows = pa.RecordBatch.from_arrays([pa.array(numbers)], schema=to_schema("at long"))
    backend.states.rows.append(names, rows, pane)


def drop(backend: BackendUnderTest, pane: int) -> None:
    backend.states.panes.drop(pane)
    backend.states.rows.drop(pane)


def newest(epoch: SubtaskState, before: SubtaskState) -> list[SegmentRef]:
    """The segments of an epoch that the one before did not have."""
    known = {ref.id for ref in before.chain}
    return [ref for ref in epoch.chain if ref.id not in known]


def held(*backends: BackendUnderTest) -> dict[str, Contents]:
    """All that is kept, by state."""
    found: dict[str, Contents] = {"panes": {}, "rows": {}}
    for backend in backends:
        for name, contents in found.items():
            for pair, kept in backend.keyed.backend.entries(name):
                assert pair not in contents
                contents[pair] = tuple(kept) if name == "panes" else [tuple(row) for row in kept]
    return found


def wanted(panes: dict[int, range]) -> dict[str, Contents]:
    pairs = {(f"k{n}", pane): n for pane, keys in panes.items() for n in keys}
    return {
        "panes": {pair: (n,) for pair, n in pairs.items()},
        "rows": {pair: [(n,)] for pair, n in pairs.items()},
    }


def outside(backend: BackendUnderTest, epoch: SubtaskState) -> dict[str, Contents]:
    """All that is kept, as somebody reads it from the files."""
    found: dict[str, Contents] = {"panes": {}, "rows": {}}
    tables = read_chain(backend.storage, epoch.chain)
    for name, kind in (("panes", "value"), ("rows", "list")):
        whole = to_whole([table for table in tables if table.name == name], kind)
        for row in [] if whole is None else whole.table.to_pylist():
            value = row["value"]
            found[name][row["key"], row["namespace"]] = (
                tuple(value.values()) if name == "panes" else [tuple(r.values()) for r in value]
            )
    return found


@pytest.mark.parametrize("keys", [10, MANY])
def test_a_pane_that_dies_is_a_word_in_a_segment_however_many_keys_it_has(
    open_backend: OpenBackend, keys: int
) -> None:
    backend = open_backend(states())
    for pane in (10, 20, 30):
        fill(backend, pane, range(keys))
    before = backend.snapshot()
    drop(backend, 10)
    drop(backend, 20)
    epoch = backend.snapshot()
    (segment,) = newest(epoch, before)
    assert segment.rows == 0
    file = open_state_file(backend.storage, segment.file)
    assert {name: len(file.drops(name, 0, 127)) for name in file.states} == {"panes": 1, "rows": 1}
    assert held(backend) == outside(backend, epoch) == wanted({30: range(keys)})


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("absorbs", [False, True])
def test_what_was_dropped_stays_away_after_a_restore_at_any_parallelism(
    open_backend: OpenBackend, absorbs: bool, rewrite: bool
) -> None:
    first = open_backend(states())
    for pane in (10, 20, 30):
        fill(first, pane, range(40))
        first.snapshot()
    if absorbs:
        # Where there is a database, it has what is dropped, as a base.
        assert first.compact()
    # And what it does not have yet.
    fill(first, 15, range(7))
    first.snapshot()
    drop(first, 15)
    drop(first, 20)
    fill(first, 20, range(5))
    drop(first, 10)
    kept = {20: range(5), 30: range(40)}
    backends, epochs = [first], [first.snapshot()]
    for parallelism in (3, 2, 1):
        open_backend.since = Since(backends[0].epoch, open_backend.attempt)
        backends = open_backend.restore(states(), epochs, parallelism, rewrite=rewrite)
        assert held(*backends) == wanted(kept)
        for backend in backends:
            for pane in (20, 30):
                if pane in backend.states.panes.panes() and parallelism == 3:
                    drop(backend, pane)
        kept = {} if parallelism == 3 else kept
        epochs = [backend.snapshot() for backend in backends]
        assert held(*backends) == wanted(kept)


@pytest.mark.parametrize("name", ["heap", "sqlite"])
def test_segments_that_drop_are_merged_with_and_without_what_they_drop(name: str) -> None:
    open_backend = opening(name)
    backend = open_backend(states())
    for pane in (10, 20, 30, 40):
        fill(backend, pane, range(MANY))
    large = backend.snapshot().chain[0]
    drop(backend, 20)
    backend.snapshot()
    drop(backend, 40)
    backend.snapshot()
    drop(backend, 10)
    fill(backend, 20, range(2))
    epochs = [backend.snapshot()]
    backend.compact(2)
    # The large segment stays: those that are merged still have to say what is gone of it.
    epochs.append(backend.snapshot())
    assert [ref.id == large.id for ref in epochs[-1].chain] == [True, False]
    kept = {20: range(2), 30: range(MANY)}
    for epoch in epochs:
        assert outside(backend, epoch) == wanted(kept)
        assert held(open_backend.reopen(states(), epoch)) == wanted(kept)
    whole = backend.keyed.merged(backend.storage, epochs[-1].chain, "whole", True)
    assert open_state_file(backend.storage, whole.file).drops("panes", 0, 127) == ()
    base = replace(epochs[-1], chain=(whole,))
    assert held(open_backend.reopen(states(), base)) == wanted(kept)


@pytest.mark.parametrize("other", ["heap", "rocksdb-in-memory", "versioned-in-memory", "sqlite"])
def test_another_backend_leaves_out_what_was_dropped(open_backend: OpenBackend, other: str) -> None:
    backend = open_backend(states())
    for pane in (10, 20):
        fill(backend, pane, range(30))
        backend.snapshot()
    assert backend.compact()
    fill(backend, 10, range(40, 44))
    backend.snapshot()
    drop(backend, 10)
    epoch = backend.snapshot()
    opened = OpenBackend(IMPLEMENTATIONS[other], backend.storage, attempt=50)
    try:
        (again,) = opened.restore(states(), [epoch], 1, rewrite=True)
        assert held(again) == wanted({20: range(30)})
        later = opened.reopen(states(), again.snapshot())
        assert held(later) == wanted({20: range(30)})
    finally:
        for member in opened.opened:
            member.release()


def test_keys_that_are_migrated_leave_behind_what_was_dropped_of_them(
    open_backend: OpenBackend,
) -> None:
    backend = open_backend(states())
    for pane in (10, 20):
        fill(backend, pane, range(30))
    backend.snapshot()
    drop(backend, 10)
    fill(backend, 10, range(3))
    infos = [replace(state.info(), name=name) for name, state in states().items()]
    stored = StoredAs("string", tuple(schema_of(info) for info in infos))
    start = RestoredState(backend.snapshot().chain, {}, True, stored_as=stored)
    opened = open_backend.every(states(), "binary", 2, start, str.encode)
    found = held(*opened)["panes"]
    kept = wanted({10: range(3), 20: range(30)})["panes"]
    assert found == {(key.encode(), pane): kept for (key, pane), kept in kept.items()}


def test_a_pane_above_one_that_lives_is_dropped_by_itself() -> None:
    opened = opening("heap")
    backend = opened(states())
    for pane in (10, 20, 30):
        fill(backend, pane, range(3))
    before = backend.snapshot()
    drop(backend, 20)
    (segment,) = newest(backend.snapshot(), before)
    (only,) = open_state_file(backend.storage, segment.file).drops("panes", 5, 9)
    assert (only.first, only.last, only.first_group, only.last_group) == (20, 20, 5, 9)
    assert held(backend) == wanted({10: range(3), 30: range(3)})
