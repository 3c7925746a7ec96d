"""What every keyed backend must do with the state of an aggregation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from mainstay.errors import SnapshotStorageError
from mainstay.schema import to_schema
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.accumulating import accumulating
from mainstay.state.aggregates import Aggregate, aggregation_of
from mainstay.state.hashing import groups_of
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import subtask_of
from mainstay.state.values import ValueType
from tests.key_hashes import hash_keys

SCHEMA = to_schema("v long, s string")
AGGREGATION = aggregation_of(
    {"total": Aggregate("sum", "v"), "n": Aggregate("count"), "all": Aggregate("collect", "s")},
    SCHEMA,
)
PARTS = [accumulating(each) for each in AGGREGATION.accumulators]
KEYS = {"long": [0, 1, 2, 7, 1 << 60, None], "string": ["a", "b", "", "ä", "long" * 20, None]}


@dataclass(frozen=True)
class Aggregates:
    """Stands where other tests have a declaration."""

    def info(self) -> StateInfo:
        return AGGREGATION.state()


STATES: Mapping[str, Any] = {"aggregates": Aggregates()}


def fold(backend: Any, key: str, values: Mapping[Any, tuple[int | None, str]]) -> list[Any]:
    """Fold a number and a text into each key; what is then kept, in the order of the keys."""
    keys = pa.array(list(values), ValueType.of(key).arrow)
    numbers, texts = zip(*values.values(), strict=True)
    batch = pa.record_batch([pa.array(numbers, pa.int64()), pa.array(texts)], schema=SCHEMA)
    partials = [part.from_arrow(part.first_partials(batch)) for part in PARTS]
    kept = backend.states.aggregates.fold(keys, partials)
    columns = [part.to_arrow(c).to_pylist() for part, c in zip(PARTS, kept, strict=True)]
    return list(zip(*columns, strict=True))


def contents(*backends: Any) -> dict[Any, Any]:
    return {k: tuple(row) for b in backends for k, row in b.contents("aggregates").items()}


@pytest.fixture(params=list(KEYS))
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_fold_gives_what_is_then_kept(open_backend, key):
    backend = open_backend(STATES, key)
    one, *_, none = KEYS[key]
    assert fold(backend, key, {one: (3, "x"), none: (None, "y")}) == [
        (3, 1, ["x"]),
        (None, 1, ["y"]),
    ]
    assert fold(backend, key, {none: (5, "z"), one: (4, "z")}) == [
        (5, 2, ["y", "z"]),
        (7, 2, ["x", "z"]),
    ]
    assert contents(backend) == {one: (7, 2, ["x", "z"]), none: (5, 2, ["y", "z"])}


def test_a_snapshot_holds_what_was_there_when_it_was_taken(open_backend, key):
    backend = open_backend(STATES, key)
    fold(backend, key, dict.fromkeys(KEYS[key], (1, "a")))
    cut = backend.freeze()
    fold(backend, key, dict.fromkeys(KEYS[key][::2], (10, "b")))
    later = backend.freeze()
    fold(backend, key, dict.fromkeys(KEYS[key][1:], (100, "c")))
    first, second = backend.write(cut), backend.write(later)
    before = {each: (1, 1, ["a"]) for each in KEYS[key]}
    assert contents(open_backend.reopen(STATES, first, key)) == before
    changed = {each: (11, 2, ["a", "b"]) for each in KEYS[key][::2]}
    assert contents(open_backend.reopen(STATES, second, key)) == before | changed


def test_a_segment_whose_write_failed_is_written_with_the_next_epoch(open_backend, key):
    class Failing(MemoryStorage):
        def write(self, path: str, data: Any) -> None:
            raise SnapshotStorageError("the storage is away")

    backend = open_backend(STATES, key)
    fold(backend, key, dict.fromkeys(KEYS[key], (1, "a")))
    cut = backend.freeze()
    fold(backend, key, {KEYS[key][0]: (1, "b")})
    with pytest.raises(SnapshotStorageError):
        backend.write(cut, Failing())
    fold(backend, key, {KEYS[key][1]: (1, "c")})
    whole = contents(backend)
    assert contents(open_backend.reopen(STATES, backend.snapshot(), key)) == whole


def test_a_restored_key_goes_on_at_any_parallelism(open_backend, key):
    backend = open_backend(STATES, key)
    fold(backend, key, dict.fromkeys(KEYS[key], (1, "a")))
    stored = [backend.snapshot()]
    for parallelism in (3, 1, 2):
        backends = open_backend.restore(STATES, stored, parallelism, key)
        for each in KEYS[key]:
            group = int(groups_of(hash_keys([each], ValueType.of(key).arrow), 128)[0])
            fold(backends[subtask_of(group, parallelism, 128)], key, {each: (1, "b")})
        stored = [opened.snapshot() for opened in backends]
    assert contents(*backends) == {each: (4, 4, ["a", "b", "b", "b"]) for each in KEYS[key]}


def test_files_of_a_chain_can_be_merged(open_backend, key):
    backend = open_backend(STATES, key)
    for number in range(5):
        fold(backend, key, dict.fromkeys(KEYS[key][number:], (number, "a")))
        backend.snapshot()
    backend.compact()
    fold(backend, key, {KEYS[key][0]: (1, "z")})
    stored, before = backend.snapshot(), contents(backend)
    assert contents(open_backend.reopen(STATES, stored, key)) == before


def test_a_look_from_outside_gives_the_row_of_a_key(open_backend: Any, key: str) -> None:
    backend = open_backend(STATES, key)
    first, *_, missing = KEYS[key]
    fold(backend, key, {first: (5, "x")})

    def looks() -> list[Any]:
        return [backend.keyed.backend.peek("aggregates", each) for each in (first, missing)]

    (found, nothing) = looks()
    assert (tuple(found), nothing) == (contents(backend)[first], None)
    backend.snapshot()
    backend.tend()
    assert looks() == [found, None]
    assert backend.keyed.backend.freeze() == {}
