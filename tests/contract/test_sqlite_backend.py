"""A backend of the tests has bases in a format of its own, which the others read."""

from __future__ import annotations

import pytest

from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.declaration import ListState, MapState, ValueState
from tests.contract.conftest import IMPLEMENTATIONS, OpenBackend
from tests.contract.sqlite_backend import FORMAT

STATES = {"n": ValueState("long"), "l": ListState("string"), "m": MapState("string", "double")}


@pytest.mark.parametrize("other", sorted(IMPLEMENTATIONS))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_base_of_its_own_is_restored_by_any_backend(other: str, parallelism: int) -> None:
    storage = MemoryStorage()
    sqlite = OpenBackend(IMPLEMENTATIONS["sqlite"], storage)
    backend = sqlite(STATES, "long")
    for key in range(50):
        states = backend.at(key)
        states.n.update(key)
        states.l.extend(["a", "b"])
        states.m.put("half", key / 2)
    moved = sqlite.reopen(STATES, backend.snapshot(), "long", rewrite=True)
    moved.at(7).l.add("c")
    epoch = moved.snapshot()
    assert [ref.format for ref in epoch.chain] == [FORMAT, "state"]
    opened = OpenBackend(IMPLEMENTATIONS[other], storage, attempt=sqlite.attempt)
    restored = opened.restore(STATES, [epoch], parallelism, "long")
    found = {name: {k: v for b in restored for k, v in b.contents(name).items()} for name in STATES}
    assert found == {
        "n": {key: key for key in range(50)},
        "l": {key: ["a", "b", "c"] if key == 7 else ["a", "b"] for key in range(50)},
        "m": {key: {"half": key / 2} for key in range(50)},
    }
    for member in (*sqlite.opened, *opened.opened):
        member.release()
