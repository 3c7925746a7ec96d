"""What every keyed backend must do with values that an operator reads and writes by the column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.state.backends.heap import chunked, value_columns
from mainstay.state.declaration import StateDeclaration, ValueState
from mainstay.state.info import StateInfo
from mainstay.state.kinds import VALUE_COLUMN
from mainstay.state.operations import DELETE, PUT
from mainstay.state.segments import read_chain
from mainstay.state.values import ValueType
from tests.contract.conftest import IMPLEMENTATIONS, BackendUnderTest, OpenBackend

LISTS = "array<struct<price:long,name:string>>"


def column_state(type: str) -> StateDeclaration:
    """The declaration of such a state, which only operators of the runtime make."""
    declaration = ValueState(type)
    plain = declaration.info

    def info() -> StateInfo:
        return replace(plain(), kind=VALUE_COLUMN)

    declaration.info = info  # type: ignore[method-assign]
    return declaration


def states(type: str = LISTS) -> dict[str, Any]:
    return {"kept": column_state(type)}


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"price": number, "name": name} for number, name in enumerate(names)]


def put(backend: BackendUnderTest, changes: dict[Any, Any], key: pa.DataType) -> None:
    handle = backend.states.kept
    keys = pa.array(list(changes), key)
    handle.put_many(keys, pa.array(list(changes.values()), handle.info.value.arrow))


def found(backend: BackendUnderTest, keys: list[Any], key: pa.DataType) -> list[Any]:
    column: list[Any] = backend.states.kept.column(pa.array(keys, key)).to_pylist()
    return column


def test_values_are_found_by_key_and_after_a_restore(open_backend: OpenBackend) -> None:
    backend = open_backend(states())
    put(backend, {"a": rows("x"), "b": rows("y", ""), "d": []}, pa.string())
    put(backend, {"a": rows("z", "w", "v")}, pa.string())
    expected = [rows("y", ""), None, rows("z", "w", "v"), []]
    for _ in range(3):
        assert found(backend, ["b", "c", "a", "d"], pa.string()) == expected
        backend = open_backend.reopen(states(), backend.snapshot())
    peeked = backend.keyed.backend.peek("kept", "a")
    assert [tuple(row) for row in peeked] == [(0, "z"), (1, "w"), (2, "v")]
    assert backend.keyed.backend.peek("kept", "c") is None
    assert sorted(key for key, _ in backend.keyed.backend.entries("kept")) == ["a", "b", "d"]
    assert [len(each) for each in (backend.at("b").kept.get(), backend.at("d").kept.get())] == [
        2,
        0,
    ]


def test_null_deletes(open_backend: OpenBackend) -> None:
    backend = open_backend(states("long"))
    put(backend, {"a": 1, "b": 2}, pa.string())
    backend.snapshot()
    put(backend, {"b": None, "never": None}, pa.string())
    for rewrite in (False, True):
        assert found(backend, ["a", "b", "never"], pa.string()) == [1, None, None]
        assert dict(backend.keyed.backend.entries("kept")) == {"a": 1}
        backend = open_backend.reopen(states("long"), backend.snapshot(), rewrite=rewrite)
    put(backend, {"b": 3}, pa.string())
    assert found(backend, ["b"], pa.string()) == [3]


def test_in_files_it_is_a_value_state(open_backend: OpenBackend) -> None:
    backend = open_backend({"kept": ValueState("long")})
    for number, key in enumerate("abc"):
        backend.at(key).kept.update(number)
    backend.snapshot()
    backend.at("a").kept.clear()
    backend = open_backend.reopen(states("long"), backend.snapshot())
    assert found(backend, ["a", "b", "c"], pa.string()) == [None, 1, 2]
    put(backend, {"a": 7, "c": 8}, pa.string())
    backend = open_backend.reopen({"kept": ValueState("long")}, backend.snapshot())
    assert [backend.at(key).kept.get() for key in "abc"] == [7, 1, 8]


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("long", [1, None, -7, 1 << 60]),
        ("struct<a:string,b:int>", [{"a": "x", "b": 1}, {"a": None, "b": 2}, {"a": "", "b": 1}]),
        ("double", [0.5, float("inf"), None]),
        ("date", [None]),
    ],
)
def test_keys_of_any_type(open_backend: OpenBackend, key: str, keys: list[Any]) -> None:
    backend = open_backend(states("string"), key)
    column = pa.array(keys, ValueType.of(key).arrow)
    for turn in range(3):
        values = pa.array([f"{turn} {number}" for number in range(len(keys))])
        backend.states.kept.put_many(column, values)
        assert backend.states.kept.column(column).equals(values)
        backend = open_backend.reopen(states("string"), backend.snapshot(), key)
        assert backend.states.kept.column(column).equals(values)


def test_a_segment_has_the_last_value_of_each_key() -> None:
    opening = OpenBackend(IMPLEMENTATIONS["heap"])
    backend = opening(states("long"))
    put(backend, {"a": 1, "b": 2, "c": 3}, pa.string())
    put(backend, {"a": 4, "c": None}, pa.string())
    (part,) = read_chain(backend.storage, backend.snapshot().chain)
    stored = part.table.sort_by("key").to_pydict()
    assert stored == {"key": ["a", "b", "c"], "op": [PUT, PUT, DELETE], "value": [4, 2, None]}
    put(backend, {"a": 5}, pa.string())
    *_, part = read_chain(backend.storage, backend.snapshot().chain)
    assert part.table.to_pydict() == {"key": ["a"], "op": [PUT], "value": [5]}
    for member in opening.opened:
        member.release()


@pytest.mark.parametrize("is_small", [False, True])
def test_random_changes_are_what_a_dictionary_says(
    open_backend: OpenBackend, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if is_small:
        monkeypatch.setattr(chunked, "FEW", 2)
        monkeypatch.setattr(chunked, "MOST_BYTES", 200)
        monkeypatch.setattr(value_columns, "_MOST_BYTES", 100)
        monkeypatch.setattr(value_columns, "SLICE_ROWS", 3)
    draw = np.random.default_rng(11)
    model: dict[Any, Any] = {}
    backend = open_backend(states())
    for step in range(100):
        # Few keys change often, and others seldom.
        chosen = set(draw.integers(0, 5 if step % 3 else 40, 6).tolist())
        changes = {key: rows(*["x" * (key % 7)] * (step % 4)) for key in chosen}
        if step % 7 == 0:
            changes[max(chosen)] = None
        put(backend, dict(zip(map(str, changes), changes.values(), strict=True)), pa.string())
        model.update(changes)
        if step % 9 == 0:
            state = backend.snapshot()
            if step % 27 == 0:
                backend = open_backend.reopen(states(), state, rewrite=step % 54 == 0)
            elif step % 18 == 0:
                backend.compact()
        if step % 5 == 0:
            keys = draw.permutation(45)
            expected = [model.get(key) for key in keys.tolist()]
            assert found(backend, [str(key) for key in keys], pa.string()) == expected
    there = {str(key) for key, value in model.items() if value is not None}
    assert {key for key, _ in backend.keyed.backend.entries("kept")} == there
