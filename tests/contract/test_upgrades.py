"""What every keyed backend must do with a snapshot whose types are not the declared ones."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay.errors import RestoreError
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.upgrading import StoredAs
from mainstay.snapshot.manifest import SubtaskState
from mainstay.state.declaration import ListState, MapState, ValueState
from mainstay.state.upgrade import schema_of
from tests.contract.conftest import BackendUnderTest, OpenBackend


def before() -> dict[str, Any]:
    return {
        "value": ValueState("int"),
        "items": ListState("struct<a:int>"),
        "by_page": MapState("int", "float"),
        "text": ValueState("string"),
        "gone": ValueState("long"),
    }


def after() -> dict[str, Any]:
    return {
        "value": ValueState("long"),
        "items": ListState("struct<b:string,a:long>"),
        "by_page": MapState("long", "double"),
        "text": ValueState("long", migrate=lambda old: int(old) if old.isdigit() else None),
        "added": ValueState("long"),
    }


def stored_as(states: dict[str, Any], key: str) -> StoredAs:
    schemas = []
    for name, state in states.items():
        state.name = name
        schemas.append(schema_of(state.info()))
    return StoredAs(key, tuple(schemas))


def fill(backend: BackendUnderTest, key: Any, number: int) -> None:
    states = backend.at(key)
    states.value.update(number)
    states.items.add((number,))
    states.by_page.put(number, number / 2)
    states.text.update(str(number) if number % 2 else "odd ones only")
    states.gone.update(number)


def contents(backend: BackendUnderTest) -> dict[str, Any]:
    return {name: backend.contents(name) for name in after()}


def expected(keys: dict[Any, int]) -> dict[str, Any]:
    return {
        "value": dict(keys),
        "items": {key: [(None, n)] for key, n in keys.items()},
        "by_page": {key: {n: n / 2} for key, n in keys.items()},
        "text": {key: n for key, n in keys.items() if n % 2},
        "added": {},
    }


def history(open_backend: OpenBackend, base: bool) -> SubtaskState:
    """Two segments, or a base of them and one more."""
    backend = open_backend(before(), key="int")
    for key in range(20):
        fill(backend, key, key + 100)
    backend.snapshot()
    fill_again = range(10)
    for key in fill_again:
        backend.at(key).items.clear()
        fill(backend, key, key)
        backend.at(key).by_page.remove(key + 100)
    epoch = backend.snapshot()
    if base:
        assert backend.compact()
        epoch = backend.snapshot()
    return epoch


NUMBERS = {key: key if key < 10 else key + 100 for key in range(20)}


@pytest.mark.parametrize("base", [False, True])
def test_values_are_converted_and_migrated_and_stored_anew(open_backend: OpenBackend, base: bool):
    types = stored_as(before(), "int")
    for parallelism in (1, 3):
        epoch = history(open_backend, base)
        opened = open_backend.restore(
            after(), [epoch], parallelism, key="int", rewrite=True, stored_as=types
        )
        found = [contents(backend) for backend in opened]
        merged = {name: {k: v for f in found for k, v in f[name].items()} for name in after()}
        assert merged == expected(NUMBERS)
        # What is written from now on has the new types only.
        written = [backend.snapshot() for backend in opened]
        again = open_backend.restore(after(), written, 1, key="int")
        assert contents(again[0]) == expected(NUMBERS)


@pytest.mark.parametrize("base", [False, True])
def test_wider_keys_stay_where_they_are(open_backend: OpenBackend, base: bool):
    epoch = history(open_backend, base)
    opened = open_backend.restore(
        after(), [epoch], 2, key="long", rewrite=True, stored_as=stored_as(before(), "int")
    )
    for backend in opened:
        backend.snapshot()
    merged = {k: v for backend in opened for k, v in backend.contents("value").items()}
    assert merged == NUMBERS


def migrated(open_backend: OpenBackend, epoch: SubtaskState, function: Any) -> list[Any]:
    """Two subtasks, each of which is given everything."""
    start = RestoredState(epoch.chain, {}, True, stored_as=stored_as(before(), "int"))
    return open_backend.every(after(), "string", 2, start, function)


@pytest.mark.parametrize("base", [False, True])
def test_migrated_keys_go_to_their_owners(open_backend: OpenBackend, base: bool):
    opened = migrated(open_backend, history(open_backend, base), lambda old: f"k{old}")
    written = [backend.snapshot() for backend in opened]
    assert all(backend.contents("value") for backend in opened)
    (again,) = open_backend.restore(after(), written, 1)
    assert contents(again) == expected({f"k{key}": n for key, n in NUMBERS.items()})


def test_keys_that_become_one_are_refused(open_backend: OpenBackend):
    epoch = history(open_backend, base=False)
    with pytest.raises(RestoreError, match=r"both become"):
        migrated(open_backend, epoch, lambda old: "same")
