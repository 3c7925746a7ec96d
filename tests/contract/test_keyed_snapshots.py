"""The contract of keyed state: snapshots, chains and rescaling give back what was there."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from mainstay.errors import SnapshotStorageError
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.declaration import (
    ListState,
    MapState,
    ValueState,
)
from mainstay.state.hashing import groups_of
from mainstay.state.keygroups import subtask_of
from mainstay.state.values import ValueType
from tests.contract.keyed_states import EMPTY, all_kinds, contents, fill, filled
from tests.key_hashes import hash_keys

M = 128


def group_of(key: Any, key_type: str = "string") -> int:
    return int(groups_of(hash_keys([key], ValueType.of(key_type).arrow), M)[0])


# ---------------------------------------------------------------- snapshots


def test_a_snapshot_of_nothing_restores_to_nothing(open_backend):
    epoch = open_backend(all_kinds()).snapshot()
    assert epoch.chain == ()
    backend = open_backend.reopen(all_kinds(), epoch)
    assert contents(backend, "a") == EMPTY
    fill(backend.at("a"), 1)
    assert contents(open_backend.reopen(all_kinds(), backend.snapshot()), "a") == filled(1)


def test_what_was_not_touched_before_a_restore_survives_the_next_snapshots(open_backend):
    first = open_backend(all_kinds())
    fill(first.at("a"), 1)
    epoch = first.snapshot()
    for _ in range(3):
        backend = open_backend.reopen(all_kinds(), epoch)
        epoch = backend.snapshot()
    assert contents(open_backend.reopen(all_kinds(), epoch), "a") == filled(1)


def test_an_epoch_without_changes_writes_no_segment(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    first, second = backend.snapshot(), backend.snapshot()
    assert first.chain == second.chain
    assert len(first.chain) == 1


def test_what_is_written_after_the_freeze_is_not_in_the_snapshot(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    fill(backend.at("gone"), 3)
    cut = backend.freeze()
    states = backend.at("a")
    fill(states, 5)
    states.by_page.put("new", 1)
    for name in EMPTY:
        getattr(backend.at("gone"), name).clear()
    fill(backend.at("b"), 2)
    restored = open_backend.reopen(all_kinds(), backend.write(cut))
    assert contents(restored, "a") == filled(1)
    assert contents(restored, "gone") == filled(3)
    assert contents(restored, "b") == EMPTY
    assert contents(backend, "gone") == EMPTY


def test_a_second_freeze_does_not_disturb_one_that_is_still_being_encoded(open_backend):
    backend = open_backend({"value": ValueState("long"), "items": ListState("long")}, "long")
    for key in range(2500):
        backend.at(key).value.update(key)
        backend.at(key).items.add(key)
    first = backend.freeze()
    encoding = backend.keyed.encode(first.segments[0])
    assert next(encoding) == []
    for key in range(2500):
        backend.at(key).value.update(-key)
        backend.at(key).items.add(-key)
    second = backend.freeze()
    backend.at(0).value.update(99)
    later = backend.write(second)
    tables = list(encoding)[-1]
    ref = backend.keyed.write(backend.storage, "again", tables)
    alone = open_backend({"value": ValueState("long"), "items": ListState("long")}, "long")
    alone.absorb(ref)
    assert alone.contents("value") == {key: key for key in range(2500)}
    assert alone.contents("items") == {key: [key] for key in range(2500)}
    both = open_backend.reopen(
        {"value": ValueState("long"), "items": ListState("long")}, later, "long"
    )
    assert both.contents("value") == {key: -key for key in range(2500)}
    assert both.contents("items") == {key: [key, -key] for key in range(2500)}


class BrokenStorage(MemoryStorage):
    def write(self, path: str, data: Any) -> None:
        raise SnapshotStorageError(f"{path} cannot be written")


def test_an_aborted_epoch_loses_nothing(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    backend.snapshot()
    fill(backend.at("b"), 2)
    backend.at("a").items.add("in the aborted epoch")
    with pytest.raises(SnapshotStorageError):
        backend.write(backend.freeze(), BrokenStorage())
    backend.at("a").items.add("after it")
    backend.at("b").total.add(5)
    epoch = backend.snapshot()
    assert len({ref.id for ref in epoch.chain}) == len(epoch.chain) == 3
    restored = open_backend.reopen(all_kinds(), epoch)
    assert restored.contents("items") == {
        "a": ["a1", "b1", "in the aborted epoch", "after it"],
        "b": ["a2", "b2"],
    }
    assert restored.at("b").total.get() == 7


def test_a_segment_is_written_once_however_many_epochs_hold_it(open_backend):
    backend = open_backend({"items": ListState("long")})
    backend.at("a").items.add(1)
    cuts = [backend.freeze() for _ in range(3)]
    epochs = [backend.write(cut) for cut in cuts]
    assert len(open_backend.storage.list("state")) == 1
    assert epochs[0].chain == epochs[1].chain == epochs[2].chain
    backend.at("a").items.add(2)
    epoch = backend.snapshot()
    assert len({ref.id for ref in epoch.chain}) == len(epoch.chain) == 2
    assert open_backend.reopen({"items": ListState("long")}, epoch).contents("items") == {
        "a": [1, 2]
    }


def test_deletions_survive_every_way_of_merging(open_backend):
    backend = open_backend(all_kinds())
    for number, key in enumerate("abcdefgh"):
        fill(backend.at(key), number)
    backend.snapshot()
    for key in "abcd":
        for name in EMPTY:
            getattr(backend.at(key), name).clear()
    backend.at("e").by_page.remove("page")
    backend.at("f").items.update(["only"])
    backend.snapshot()
    fill(backend.at("a"), 9)
    before = {name: backend.contents(name) for name in EMPTY}
    epoch = backend.snapshot()
    while backend.compact():
        epoch = backend.snapshot()
    assert len(epoch.chain) < 3
    restored = open_backend.reopen(all_kinds(), epoch)
    assert {name: restored.contents(name) for name in EMPTY} == before


def test_a_restore_that_must_rewrite_depends_on_no_older_file(open_backend):
    backend = open_backend(all_kinds())
    fill(backend.at("a"), 1)
    fill(backend.at("b"), 2)
    old = backend.snapshot()
    moved = open_backend.reopen(all_kinds(), old, rewrite=True)
    moved.at("b").items.add("later")
    for name in EMPTY:
        getattr(moved.at("a"), name).clear()
    new = moved.snapshot()
    assert {ref.file.path for ref in old.chain}.isdisjoint(ref.file.path for ref in new.chain)
    for ref in old.chain:
        open_backend.storage.delete(ref.file.path)
    restored = open_backend.reopen(all_kinds(), new)
    assert contents(restored, "a") == EMPTY
    assert contents(restored, "b") == {**filled(2), "items": ["a2", "b2", "later"]}


# ---------------------------------------------------------------- rescaling


def one_key_per_group() -> dict[int, str]:
    found: dict[int, str] = {}
    number = 0
    while len(found) < M:
        found.setdefault(group_of(f"key-{number}"), f"key-{number}")
        number += 1
    return found


KEY_OF = one_key_per_group()


MANY = [pytest.param(*sizes, marks=pytest.mark.soak) for sizes in ((15, 77), (77, 15))]


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 4), (2, 2), *MANY])
def test_a_value_is_found_only_by_the_owner_of_its_key_group(open_backend, old, new):
    """Every group has a state of its own, which nobody else declared before the rescale."""
    states = {f"of_{group}": ValueState("long") for group in range(M)}
    epoch = []
    for subtask in range(old):
        owned = [group for group in range(M) if subtask_of(group, old, M) == subtask]
        declared = {f"of_{group}": ValueState("long") for group in owned}
        backend = open_backend(declared, "string", subtask, old)
        for group in owned:
            getattr(backend.at(KEY_OF[group]), f"of_{group}").update(group)
        epoch.append(backend.snapshot())
    for subtask, backend in enumerate(open_backend.restore(states, epoch, new)):
        for group in range(M):
            is_owner = subtask_of(group, new, M) == subtask
            expected = {KEY_OF[group]: group} if is_owner else {}
            assert backend.contents(f"of_{group}") == expected


def test_going_from_two_to_three_and_back_applies_nothing_twice(open_backend):
    declared = {"items": ListState("long")}
    expected: dict[str, list[int]] = defaultdict(list)
    backends = open_backend.all(declared, 2)
    for round, parallelism in enumerate([3, 2, 3, 2]):
        for group, key in KEY_OF.items():
            subtask = subtask_of(group, len(backends), M)
            backends[subtask].at(key).items.add(round)
            expected[key].append(round)
        epoch = [backend.snapshot() for backend in backends]
        backends = open_backend.restore(declared, epoch, parallelism)
        for backend in backends:
            backend.keyed.chain.check_invariants()
    found: dict[str, list[int]] = {}
    for backend in backends:
        assert found.keys().isdisjoint(backend.contents("items"))
        found.update(backend.contents("items"))
    assert found == expected


# ---------------------------------------------------------------- at length


class Model:
    """Plain dictionaries that every operation is done to as well."""

    def __init__(self) -> None:
        self.value: dict[int, Any] = {}
        self.items: dict[int, list[Any]] = {}
        self.by_page: dict[int, dict[int, Any]] = {}

    def copy(self) -> tuple[Any, ...]:
        return (
            {key: list(value) for key, value in self.value.items()},
            {key: [list(item) for item in items] for key, items in self.items.items()},
            {key: dict(entries) for key, entries in self.by_page.items()},
        )


def random_operation(chance: random.Random, states: Any, key: int, model: Model) -> None:
    """One operation on both; whatever is returned is changed, to show that it is a copy."""
    which, number, item = chance.randrange(12), chance.randrange(100), chance.randrange(6)
    if which == 0:
        given = [number]
        states.value.update(given)
        given.append(-1)
        model.value[key] = [number]
    elif which == 1:
        if (found := states.value.get()) is not None:
            found.append(-1)
    elif which == 2:
        states.value.clear()
        model.value.pop(key, None)
    elif which in (3, 4):
        states.items.add([number])
        model.items.setdefault(key, []).append([number])
    elif which == 5:
        for element in states.items.get() or ():
            element.append(-1)
    elif which == 6:
        new = [[n] for n in range(item)]
        states.items.update(new)
        model.items[key] = [list(element) for element in new]
        if not new:
            del model.items[key]
        for element in new:
            element.append(-1)
    elif which in (7, 8, 9):
        states.by_page.put(item, number if number % 7 else None)
        model.by_page.setdefault(key, {})[item] = number if number % 7 else None
    elif which == 10:
        states.by_page.remove(item)
        if key in model.by_page:
            model.by_page[key].pop(item, None)
            if not model.by_page[key]:
                del model.by_page[key]
    elif number % 4 == 0:
        getattr(states, "by_page" if number % 8 else "items").clear()
        (model.by_page if number % 8 else model.items).pop(key, None)


@pytest.mark.parametrize("steps", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_operations_with_overlapping_freezes_equal_a_dictionary(open_backend, steps):
    declared = {
        "value": ValueState("array<long>"),
        "items": ListState("array<long>"),
        "by_page": MapState("long", "long"),
    }
    chance = random.Random(20170817)
    backend, mirror = open_backend(declared, "long"), open_backend(declared, "long")
    model = Model()
    waiting: list[tuple[Any, tuple[Any, ...]]] = []
    absorbed = 0

    def seen(of: Any) -> tuple[Any, ...]:
        return of.contents("value"), of.contents("items"), of.contents("by_page")

    for step in range(1, steps + 1):
        key = chance.randrange(20)
        random_operation(chance, backend.at(key), key, model)
        if step % 500 == 0:
            assert seen(backend) == model.copy()
            waiting.append((backend.freeze(), model.copy()))
        while waiting and (len(waiting) > 3 or chance.random() < 0.001):
            # Written late, while newer segments wait behind it and the state goes on changing.
            cut, expected = waiting.pop(0)
            chain = backend.write(cut).chain
            mirror.absorb(*chain[absorbed:])
            absorbed = len(chain)
            assert seen(mirror) == expected
    assert absorbed > steps / 667
