"""What every keyed backend must do with rows that are kept by key and pane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.schema import to_schema
from mainstay.snapshot.drops import FIRST_PANE
from mainstay.state.backends.heap.rows import HeapRows
from mainstay.state.declaration import ListState, StateDeclaration
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.kinds import ROWS
from mainstay.state.operations import APPEND
from mainstay.state.rows import Chunk, RowsHandle
from mainstay.state.segments import read_chain
from mainstay.state.whole import to_whole
from tests.contract.conftest import IMPLEMENTATIONS, MAX_PARALLELISM, BackendUnderTest, OpenBackend
from tests.namespaces import namespaced

COLUMNS = "at long, name string"
SCHEMA = to_schema(COLUMNS)


def rows_state(columns: str = COLUMNS) -> StateDeclaration:
    """The declaration of rows by pane, which only operators of the runtime make."""
    fields = ",".join(each.strip().replace(" ", ":", 1) for each in columns.split(","))
    declaration = namespaced(ListState(f"struct<{fields}>"), "long")
    plain = declaration.info

    def info() -> StateInfo:
        return replace(plain(), kind=ROWS)

    declaration.info = info  # type: ignore[method-assign]
    return declaration


def states() -> dict[str, Any]:
    return {"rows": rows_state()}


def keys_of(*keys: Any, type: str = "string") -> pa.Array:
    return pa.array(keys, type)


def batch(*rows: tuple[Any, Any]) -> pa.RecordBatch:
    times, names = zip(*rows, strict=True) if rows else ((), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(times, "int64"), pa.array(names, "string")], schema=SCHEMA
    )


def add(handle: RowsHandle, pane: int, *rows: tuple[Any, int, str]) -> None:
    handle.append(
        keys_of(*(key for key, _, _ in rows)), batch(*((at, n) for _, at, n in rows)), pane
    )


def found(handle: RowsHandle) -> dict[int, list[tuple[Any, ...]]]:
    """The rows of each pane, those of a key in their order."""
    result = {}
    for pane in handle.panes():
        keys, rows = handle.rows(pane)
        triples = zip(keys.to_pylist(), *(each.to_pylist() for each in rows.columns), strict=True)
        result[pane] = sorted(triples, key=lambda row: str(row[0]))
    return result


def test_rows_are_found_by_pane_in_ascending_order_and_after_a_restore(
    open_backend: OpenBackend,
) -> None:
    backend = open_backend(states())
    expected = {-5: [("b", 4, "y")], 10: [("a", 1, "x"), ("a", 3, None), ("b", 2, "")]}
    add(backend.states.rows, 10, ("a", 1, "x"), ("b", 2, ""))
    add(backend.states.rows, -5, ("b", 4, "y"))
    backend.states.rows.append(keys_of("a"), batch((3, None)), 10)
    for _ in range(3):
        assert backend.states.rows.panes() == [-5, 10]
        assert found(backend.states.rows) == expected
        backend = open_backend.reopen(states(), backend.snapshot())
    assert backend.keyed.backend.peek("rows", "a", 10) == [(1, "x"), (3, None)]
    assert backend.keyed.backend.peek("rows", "a", 11) == []
    assert dict(backend.keyed.backend.entries("rows"))["b", -5] == [(4, "y")]


def test_each_row_goes_to_its_own_pane(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    rows = batch(*((n, str(n)) for n in range(6)))
    panes = np.array([3, 1, 3, 2, 1, 3])
    backend.states.rows.append(keys_of(*"aabbaa"), rows, panes)
    assert found(backend.states.rows) == {
        1: [("a", 1, "1"), ("a", 4, "4")],
        2: [("b", 3, "3")],
        3: [("a", 0, "0"), ("a", 5, "5"), ("b", 2, "2")],
    }
    backend.states.rows.append(keys_of(), batch(), np.array([], np.int64))
    assert backend.states.rows.panes() == [1, 2, 3]
    keys, none = backend.states.rows.rows(99)
    assert (len(keys), keys.type, none.num_rows, none.schema) == (0, pa.string(), 0, SCHEMA)


@pytest.mark.parametrize("epochs_between", [0, 1, 2])
def test_a_dropped_pane_is_gone_also_after_a_restore(
    open_backend: OpenBackend, epochs_between: int
) -> None:
    backend = open_backend(states())
    add(backend.states.rows, 1, ("a", 1, "x"), ("b", 2, "y"))
    add(backend.states.rows, 2, ("a", 3, "z"))
    for _ in range(epochs_between):
        backend.snapshot()
    add(backend.states.rows, 1, ("c", 9, "w"))
    backend.states.rows.drop(1)
    assert found(backend.states.rows) == {2: [("a", 3, "z")]}
    state = backend.snapshot()
    backend = open_backend.reopen(states(), state)
    assert found(backend.states.rows) == {2: [("a", 3, "z")]}
    backend.states.rows.drop(2)
    backend.states.rows.drop(77)
    backend = open_backend.reopen(states(), backend.snapshot())
    assert found(backend.states.rows) == {}
    assert list(backend.keyed.backend.entries("rows")) == []


def test_a_pane_may_come_again_after_it_was_dropped(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    add(backend.states.rows, 1, ("a", 1, "x"), ("b", 2, "y"))
    backend.snapshot()
    for number in range(3):
        backend.states.rows.drop(1)
        add(backend.states.rows, 1, ("a", number, "again"))
    expected = {1: [("a", 2, "again")]}
    assert found(backend.states.rows) == expected
    state = backend.snapshot()
    backend.compact()
    assert found(open_backend.reopen(states(), state).states.rows) == expected
    assert found(open_backend.reopen(states(), backend.snapshot()).states.rows) == expected


def test_a_part_of_a_pane_is_kept(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    add(backend.states.rows, 1, ("a", 1, "x"), ("a", 2, "y"), ("b", 3, "z"))
    backend.snapshot()
    backend.states.rows.replace(1, keys_of("a"), batch((2, "y")))
    assert found(backend.states.rows) == {1: [("a", 2, "y")]}
    backend = open_backend.reopen(states(), backend.snapshot())
    assert found(backend.states.rows) == {1: [("a", 2, "y")]}
    backend.states.rows.replace(1, keys_of(), batch())
    assert found(open_backend.reopen(states(), backend.snapshot()).states.rows) == {}


def test_put_keeps_one_row_for_each_key(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    rows = backend.states.rows
    rows.put(keys_of("a", "b"), batch((1, "x"), (2, "y")), 0)
    backend.snapshot()
    for number in range(5):
        rows.put(keys_of("a", f"c{number}"), batch((10 + number, "z"), (number, "w")), 0)
    expected = {0: [("a", 14, "z"), ("b", 2, "y"), *((f"c{n}", n, "w") for n in range(5))]}
    assert found(rows) == expected
    last_of_a = [
        (row["at"], row["name"])
        for chunk in rows.chunks(0)
        for key, row in zip(chunk.keys.to_pylist(), chunk.rows.to_pylist(), strict=True)
        if key == "a"
    ][-1]
    assert last_of_a == (14, "z")
    assert backend.keyed.backend.peek("rows", "a", 0) == [(14, "z")]
    for rewrite in (False, True):
        again = open_backend.reopen(states(), backend.snapshot(), rewrite=rewrite)
        assert found(again.states.rows) == expected


def test_chunks_of_some_keys_have_all_of_theirs(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    for number in range(20):
        add(backend.states.rows, 1, (f"k{number % 5}", number, "x"), ("other", number, "y"))
        if number == 10:
            backend.snapshot()
    asked = keys_of("k3", "k4", "nobody", "k3")
    times = [
        row["at"]
        for chunk in backend.states.rows.chunks(1, asked)
        for key, row in zip(chunk.keys.to_pylist(), chunk.rows.to_pylist(), strict=True)
        if key == "k3"
    ]
    assert times == [3, 8, 13, 18]


def test_notes_of_joined_chunks_are_asked_for(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    rows = backend.states.rows

    def joined(old: Sequence[Chunk], joined: Chunk) -> None:
        joined.note = sum(chunk.note or len(chunk) for chunk in old)

    rows.on_joined(joined)
    for number in range(40):
        add(rows, 1, ("a", number, "x"))
        for chunk in rows.chunks(1, keys_of("a") if number % 3 == 0 else None):
            chunk.note = len(chunk) if chunk.note is None else chunk.note
            assert chunk.note == len(chunk)
    chunks = rows.chunks(1, keys_of("a"))
    times = [at for chunk in chunks for at in chunk.rows.column("at").to_pylist()]
    assert times == list(range(40))
    assert len(chunks) <= 8


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("long", [1, None, -7]),
        ("struct<a:string,b:int>", [{"a": "x", "b": 1}, {"a": None, "b": 2}, {"a": "", "b": 1}]),
        ("double", [0.5, float("inf"), None]),
        ("decimal(10,2)", [None]),
    ],
)
def test_keys_of_any_type(open_backend: OpenBackend, key: str, keys: list[Any]) -> None:
    backend = open_backend(states(), key)
    column = pa.array(keys, backend.keyed.backend.handles["rows"]._table.key.key.arrow)
    rows = batch(*((n, str(n)) for n in range(len(keys))))
    for _ in range(2):
        backend.states.rows.append(column, rows, 1)
        backend = open_backend.reopen(states(), backend.snapshot(), key)
    assert len(backend.states.rows.rows(1)[0]) == 2 * len(keys)
    got = {tuple(items) for _, items in backend.keyed.backend.entries("rows")}
    assert got == {((n, str(n)),) * 2 for n in range(len(keys))}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("rewrite", [False, True])
def test_rows_move_with_their_keys(
    open_backend: OpenBackend, parallelism: int, rewrite: bool
) -> None:
    opened = open_backend.all(states(), 2)
    everything: dict[int, set[Any]] = {}
    for backend in opened:
        groups = backend.keyed.owner.groups
        for number in range(200):
            key = f"k{number % 40}"
            group = int(key_groups([pa.array([key])], MAX_PARALLELISM)[0])
            if groups.first <= group <= groups.last:
                add(backend.states.rows, number % 3, (key, number, "x"))
                everything.setdefault(number % 3, set()).add((key, number, "x"))
        backend.snapshot()
        backend.states.rows.drop(1)
        backend.tend()
        backend.compact()
    del everything[1]
    epoch = [backend.snapshot() for backend in opened]
    again = open_backend.restore(states(), epoch, parallelism, rewrite=rewrite)
    got: dict[int, set[Any]] = {}
    for backend in again:
        for pane, rows in found(backend.states.rows).items():
            got.setdefault(pane, set()).update(rows)
    assert got == everything


def test_in_files_it_is_a_list_state_with_a_namespace(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    add(backend.states.rows, 7, ("a", 1, "x"), ("b", 2, "y"))
    backend.freeze()
    add(backend.states.rows, 7, ("a", 3, "z"))
    parts = read_chain(backend.storage, backend.snapshot().chain)
    assert [part.table.column_names for part in parts] == [["key", "namespace", "op", "value"]] * 2
    whole = to_whole(parts, "list")
    assert whole is not None
    rows = {(row["key"], row["namespace"]): row["value"] for row in whole.table.to_pylist()}
    assert rows["a", 7] == [{"at": 1, "name": "x"}, {"at": 3, "name": "z"}]
    assert rows["b", 7] == [{"at": 2, "name": "y"}]


def ops_of(backend: BackendUnderTest) -> list[int]:
    """The operations of the next segment."""
    before = {segment.id for segment in backend.keyed.chain.segments}
    refs = backend.snapshot().chain
    new = tuple(ref for ref in refs if ref.id not in before)
    return sorted(op for t in read_chain(backend.storage, new) for op in t.table["op"].to_pylist())


def test_only_what_a_segment_has_is_dropped() -> None:
    opening = OpenBackend(IMPLEMENTATIONS["heap"])
    backend = opening(states())
    add(backend.states.rows, 1, ("a", 1, "x"), ("b", 2, "y"))
    backend.states.rows.drop(1)
    assert not backend.keyed.backend.freeze(), "nothing was ever handed out"
    add(backend.states.rows, 1, ("a", 1, "x"), ("a", 2, "y"))
    assert ops_of(backend) == [APPEND, APPEND]
    add(backend.states.rows, 1, ("b", 1, "x"))
    backend.states.rows.drop(1)
    assert ops_of(backend) == [], "a pane is dropped without a word for each key"
    (*_, last) = read_chain(backend.storage, backend.snapshot().chain)
    assert [(drop.first, drop.last) for drop in last.drops] == [(FIRST_PANE, 1)]
    for member in opening.opened:
        member.release()


@pytest.mark.parametrize("other", ["heap", "rocksdb-in-memory", "sqlite"])
def test_another_backend_goes_on(open_backend: OpenBackend, other: str) -> None:
    backend = open_backend(states())
    for number in range(30):
        add(backend.states.rows, number % 4, (f"{number % 7}", number, "x"))
        if number % 10 == 0:
            backend.snapshot()
    backend.states.rows.drop(2)
    backend.compact()
    expected = found(backend.states.rows)
    state = backend.snapshot()
    opening = OpenBackend(IMPLEMENTATIONS[other], open_backend.storage, attempt=50)
    again = opening.reopen(states(), state)
    assert found(again.states.rows) == expected
    again.states.rows.drop(3)
    del expected[3]
    assert found(opening.reopen(states(), again.snapshot()).states.rows) == expected
    for member in opening.opened:
        member.release()


def test_random_changes_are_what_a_plain_loop_says(open_backend: OpenBackend) -> None:
    draw = np.random.default_rng(7)
    model: dict[int, list[tuple[Any, ...]]] = {}
    backend = open_backend(states())
    for step in range(120):
        pane = int(draw.integers(4))
        kind = draw.integers(10)
        if kind < 7:
            rows = [
                (f"k{draw.integers(6)}", step * 10 + n, "r") for n in range(draw.integers(1, 9))
            ]
            add(backend.states.rows, pane, *rows)
            model.setdefault(pane, []).extend(rows)
        elif kind == 7:
            backend.states.rows.drop(pane)
            model.pop(pane, None)
        elif kind == 8:
            kept = [row for row in model.get(pane, []) if row[1] % 2]
            backend.states.rows.replace(
                pane, keys_of(*(k for k, _, _ in kept)), batch(*((at, n) for _, at, n in kept))
            )
            model.pop(pane, None)
            model.update({pane: kept} if kept else {})
        elif step % 2:
            backend.snapshot()
            backend.compact()
        else:
            backend = open_backend.reopen(states(), backend.snapshot(), rewrite=step % 4 == 0)
        expected = {p: sorted(rows, key=lambda row: row[0]) for p, rows in sorted(model.items())}
        assert found(backend.states.rows) == expected


def test_the_heap_freezes_batches_and_copies_nothing() -> None:
    opening = OpenBackend(IMPLEMENTATIONS["heap"])
    backend = opening(states())
    table: HeapRows = backend.keyed.backend.handles["rows"]._table
    rows = batch((1, "x"), (2, "y"))
    backend.states.rows.append(keys_of("a", "b"), rows, 1)
    backend.states.rows.append(keys_of("a", "b"), rows, 2)
    parts = table.freeze()
    assert [part.rows for part in parts] == [rows, rows]
    assert all(part.rows is rows for part in parts)
    assert table.freeze() == []
    for member in opening.opened:
        member.release()
