"""What every keyed backend must do with states that are kept by key and namespace."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import MainstayError, RestoreError, StateTypeError
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.upgrading import StoredAs
from mainstay.state.accumulating import Column
from mainstay.state.aggregates import Aggregate, Aggregation, aggregation_of
from mainstay.state.declaration import ListState, MapState, StateDeclaration, ValueState
from mainstay.state.hashing import key_groups
from mainstay.state.info import StateInfo
from mainstay.state.keyed import NO_KEY
from mainstay.state.segments import read_chain
from mainstay.state.stored_key import StoredKey
from mainstay.state.ttl import Ttl
from mainstay.state.upgrade import plan_state, schema_of
from mainstay.state.values import ValueType
from mainstay.state.whole import to_whole
from tests.contract.conftest import IMPLEMENTATIONS, MAX_PARALLELISM, BackendUnderTest, OpenBackend
from tests.contract.keyed_states import EMPTY, all_kinds, average_state, fill, filled
from tests.namespaces import namespaced

NAMESPACES: dict[str, tuple[Any, Any]] = {
    "long": (-3, 1 << 40),
    "int": (0, 7),
    "date": (date(1969, 5, 1), date(2024, 2, 29)),
    "timestamp": tuple(datetime(y, 1, 1, tzinfo=timezone.utc) for y in (1960, 2030)),
    "string": ("", "a\0b"),
    "boolean": (False, True),
    "decimal(10,2)": (1, 2),
    "struct<start:long,end:long>": ((0, 10), (0, 20)),
}
DAY = 86_400.0


def kinds(namespace: str = "long") -> dict[str, Any]:
    return {name: namespaced(state, namespace) for name, state in all_kinds().items()}


def contents(backend: BackendUnderTest, key: Any, namespace: Any) -> dict[str, Any]:
    states = backend.at(key, namespace)
    found = {name: getattr(states, name).get() for name in EMPTY if name != "by_page"}
    return {**found, "by_page": dict(states.by_page.items())}


@pytest.mark.parametrize("namespace", NAMESPACES)
@pytest.mark.parametrize("key", ["string", "long", "struct<a:string,b:int>"])
def test_every_kind_keeps_its_own_for_each_namespace(
    open_backend: OpenBackend, key: str, namespace: str
) -> None:
    keys = {"string": ("a", ""), "long": (1, None)}.get(key, (("a", 1), ("", None)))
    first, second = map(ValueType.of(namespace).freeze, NAMESPACES[namespace])
    backend = open_backend(kinds(namespace), key)
    fill(backend.at(keys[0], first), 1)
    fill(backend.at(keys[0], second), 2)
    fill(backend.at(keys[1], first), 3)
    expected = {(keys[0], first): filled(1), (keys[0], second): filled(2)}
    expected |= {(keys[1], first): filled(3), (keys[1], second): EMPTY}
    for _ in range(2):
        assert {pair: contents(backend, *pair) for pair in expected} == expected
        for (asked, wanted), kept in expected.items():
            peeked = {name: backend.keyed.backend.peek(name, asked, wanted) for name in kept}
            assert peeked == kept
        assert len(backend.contents("value")) == 3
        backend = open_backend.reopen(kinds(namespace), backend.snapshot(), key)


def test_clearing_one_namespace_leaves_the_others(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds())
    for namespace in range(3):
        fill(backend.at("a", namespace), namespace)
    backend = open_backend.reopen(kinds(), backend.snapshot())
    for name in EMPTY:
        getattr(backend.at("a", 1), name).clear()
    backend.at("a", 2).by_page.remove("page")
    expected = [filled(0), EMPTY, {**filled(2), "by_page": {"none": None}}]
    assert [contents(backend, "a", namespace) for namespace in range(3)] == expected
    state = backend.snapshot()
    backend.compact()
    assert [contents(backend, "a", namespace) for namespace in range(3)] == expected
    backend = open_backend.reopen(kinds(), state)
    assert [contents(backend, "a", namespace) for namespace in range(3)] == expected


def test_many_pairs_are_read_and_written_at_once(open_backend: OpenBackend) -> None:
    backend = open_backend(
        {
            "value": namespaced(ValueState("long"), "long"),
            "items": namespaced(ListState("long"), "long"),
            "entries": namespaced(MapState("string", "long"), "long"),
        },
        "long",
    )
    pairs = [(key, namespace) for key in range(4) for namespace in (-1, 5)]
    states = backend.states
    states.value.put_many(pairs, range(8))
    states.items.put_many(pairs, [[n] for n in range(8)])
    states.entries.put_many(pairs, [{"n": n} for n in range(8)])
    asked = [(3, 5), (0, -1), (9, 9)]
    assert states.value.get_many(asked, -1) == [7, 0, -1]
    assert states.items.get_many(asked) == [[7], [0], []]
    assert states.entries.get_many(asked) == [{"n": 7}, {"n": 0}, {}]
    columns = pair_column([(3, 5)], "long", "long")
    assert states.value.get_many(columns) == [7]
    for wrong in (3, (3, None), (3, 4, 5)):
        with pytest.raises(
            StateTypeError, match=r"state 'value'.*no pair of a key and a namespace"
        ):
            states.value.get_many([wrong])


def test_the_namespace_stays_until_the_next_is_entered_and_the_key_is_the_rows_own(
    open_backend: OpenBackend,
) -> None:
    backend = open_backend({**all_kinds(), "n": namespaced(ValueState("long"), "long")})
    with pytest.raises(MainstayError, match="before one was entered"):
        backend.at("a").n.update(1)
    backend.at("a", 7).n.update(1)
    backend.at("b").n.update(2)
    fill(backend.at("b"), 5)
    assert backend.contents("n") == {("a", 7): 1, ("b", 7): 2}
    assert backend.contents("value") == {"b": 5}
    backend.member.row_context.current_key = NO_KEY
    with pytest.raises(MainstayError, match="where there is no key"):
        backend.states.n.get()


def test_a_look_names_a_namespace_just_where_there_is_one(open_backend: OpenBackend) -> None:
    backend = open_backend({"n": namespaced(ValueState("long"), "long"), "m": ValueState("long")})
    with pytest.raises(MainstayError, match="state 'n' has a namespace"):
        backend.keyed.backend.peek("n", "a")
    with pytest.raises(MainstayError, match="state 'm' has no namespace"):
        backend.keyed.backend.peek("m", "a", 3)


# ---------------------------------------------------------------- files


def test_rows_have_a_column_after_the_key_and_the_group_of_the_key_alone(
    open_backend: OpenBackend,
) -> None:
    backend = open_backend(kinds("string"))
    for key in "abcdefgh":
        for namespace in ("x", "y"):
            fill(backend.at(key, namespace), 1)
    state = backend.snapshot()
    assert backend.compact() or len(state.chain) == 1
    for table in read_chain(backend.storage, state.chain):
        assert table.table.column_names[:3] == ["key", "namespace", "op"]
        expected = key_groups([table.table.column("key")], MAX_PARALLELISM)
        assert table.groups.tolist() == expected.tolist()


@pytest.mark.parametrize("parallelism", [1, 3, 5])
@pytest.mark.parametrize("rewrite", [False, True])
def test_namespaces_of_a_key_stay_together_when_the_job_is_rescaled(
    open_backend: OpenBackend, parallelism: int, rewrite: bool
) -> None:
    opened = open_backend.all(kinds("string"), 2)
    owned: dict[int, list[str]] = {0: [], 1: []}
    for key in map(str, range(40)):
        group = int(key_groups([pa.array([key])], MAX_PARALLELISM)[0])
        owner = next(n for n in range(2) if group in range_of_groups(opened[n]))
        owned[owner].append(key)
    for number, backend in enumerate(opened):
        for key in owned[number]:
            for namespace in ("x", "yy"):
                fill(backend.at(key, namespace), int(key))
        backend.snapshot()
        backend.tend()
        backend.compact()
    epoch = [backend.snapshot() for backend in opened]
    again = open_backend.restore(kinds("string"), epoch, parallelism, rewrite=rewrite)
    found: dict[Any, Any] = {}
    for backend in again:
        for key, namespace in backend.contents("value"):
            found[key, namespace] = contents(backend, key, namespace)
    assert found == {(str(n), name): filled(n) for n in range(40) for name in ("x", "yy")}


def range_of_groups(backend: BackendUnderTest) -> range:
    groups = backend.keyed.owner.groups
    return range(groups.first, groups.last + 1)


def test_the_whole_state_has_one_row_for_each_pair(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds())
    for number in range(3):
        for namespace in (1, 2):
            states = backend.at("a", namespace)
            states.items.add(f"{number}")
            states.value.update(number)
        backend.freeze()
    parts = read_chain(backend.storage, backend.snapshot().chain)
    lists = to_whole([part for part in parts if part.name == "items"], "list")
    assert lists is not None
    rows = {(row["key"], row["namespace"]): row["value"] for row in lists.table.to_pylist()}
    assert rows == {("a", 1): ["0", "1", "2"], ("a", 2): ["0", "1", "2"]}
    values = to_whole([part for part in parts if part.name == "value"], "value")
    assert values is not None
    assert values.table.num_rows == 2


@pytest.mark.parametrize("other", ["heap", "rocksdb-in-memory", "sqlite"])
@pytest.mark.parametrize("rewrite", [False, True])
def test_another_backend_goes_on_with_what_one_has_stored(
    open_backend: OpenBackend, other: str, rewrite: bool
) -> None:
    backend = open_backend(kinds("string"))
    for number in range(20):
        for namespace in ("x", ""):
            fill(backend.at(f"{number}", namespace), number)
        backend.snapshot()
    backend.compact()
    state = backend.snapshot()
    opening = OpenBackend(IMPLEMENTATIONS[other], open_backend.storage, attempt=50)
    again = opening.reopen(kinds("string"), state, rewrite=rewrite)
    for number in range(20):
        assert all(contents(again, f"{number}", name) == filled(number) for name in ("x", ""))
    again.at("3", "x").value.update(99)
    assert opening.reopen(kinds("string"), again.snapshot()).at("3", "x").value.get() == 99
    for member in opening.opened:
        member.release()


# ---------------------------------------------------------------- time to live


@pytest.mark.parametrize("ttl", ["1 day", Ttl("1 day", update="read")])
def test_what_is_kept_for_a_pair_expires_by_itself(open_backend: OpenBackend, ttl: Any) -> None:
    states: dict[str, Any] = {
        "value": ValueState("long", ttl=ttl),
        "items": ListState("string", ttl=ttl),
        "by_page": MapState("string", "long", ttl=ttl),
        "average": average_state(ttl),
    }
    declared = {name: namespaced(state, "long") for name, state in states.items()}
    backend = open_backend(declared)

    def write(namespace: int) -> None:
        states = backend.at("a", namespace)
        states.value.update(namespace)
        states.items.add(f"{namespace}")
        states.by_page.put("n", namespace)
        states.average.add(float(namespace))

    write(1)
    backend.snapshot()
    open_backend.clock.now += 0.6 * DAY
    write(2)
    open_backend.clock.now += 0.6 * DAY
    for _ in range(2):
        assert backend.contents("value") == {("a", 2): 2}
        assert backend.contents("items") == {("a", 2): ["2"]}
        assert backend.contents("by_page") == {("a", 2): {"n": 2}}
        assert backend.contents("average") == {("a", 2): 2.0}
        assert backend.keyed.backend.peek("value", "a", 1) is None
        state = backend.snapshot()
        backend.compact()
        backend = open_backend.reopen(declared, state)
    backend.sweep()
    assert backend.contents("value") == {("a", 2): 2}


# ---------------------------------------------------------------- columns


@pytest.mark.parametrize("key", ["long", "string"])
@pytest.mark.parametrize("namespace", ["long", "timestamp", "string"])
def test_partial_results_are_folded_into_pairs(
    open_backend: OpenBackend, key: str, namespace: str
) -> None:
    aggregation = sums()
    declared = {"aggregates": Declared(aggregation.state(), namespace)}
    backend = open_backend(declared, key)
    keys, namespaces = parts_of(key, namespace)
    pairs = [(k, n) for k in keys for n in namespaces]
    totals = dict.fromkeys(pairs, 0)
    random = np.random.default_rng(7)
    for round_ in range(6):
        some = [pairs[n] for n in random.permutation(len(pairs))[: 5 + round_]]
        column = pair_column(some, key, namespace)
        added = random.integers(1, 100, len(some))
        found = backend.states.aggregates.fold(column, [as_column(added)])
        for pair, more in zip(some, added.tolist(), strict=True):
            totals[pair] += more
        assert found[0][0].tolist() == [totals[pair] for pair in some]
        state = backend.snapshot()
        if round_ % 2:
            backend.compact()
            backend = open_backend.reopen(declared, state, key)
    there = {pair: total for pair, total in totals.items() if total}
    kept = {pair: row[0] for pair, row in backend.keyed.backend.entries("aggregates")}
    assert kept == there
    assert backend.keyed.backend.peek("aggregates", *pairs[0]) is not None


def sums() -> Aggregation:
    return aggregation_of({"n": Aggregate("sum", "n")}, pa.schema([("n", pa.int64())]))


class Declared(ValueState):
    """The state of an aggregation by namespace, as a declaration."""

    def __init__(self, state: StateInfo, namespace: str) -> None:
        super().__init__()
        self.state, self.namespace = state, namespace

    def info(self) -> StateInfo:
        return replace(self.state, namespace=ValueType.of(self.namespace))


def parts_of(key: str, namespace: str) -> tuple[list[Any], list[Any]]:
    keys = [None, 3, -5] if key == "long" else [None, "b", ""]
    words = [0, 1, 1 << 50]
    return keys, {
        "long": words,
        "string": ["x", "y", ""],
        "timestamp": [datetime(2000 + n, 1, 1, tzinfo=timezone.utc) for n in range(3)],
    }[namespace]


def pair_column(pairs: list[tuple[Any, Any]], key: str, namespace: str) -> pa.Array:
    return StoredKey.of(ValueType.of(key), ValueType.of(namespace)).type.to_array(pairs)


def as_column(numbers: Any) -> Column:
    return numbers.astype(np.int64), None


# ---------------------------------------------------------------- upgrades


def test_a_wider_namespace_is_converted_and_a_rekeyed_state_keeps_it(
    open_backend: OpenBackend,
) -> None:
    backend = open_backend(kinds("int"), "int")
    for key in range(5):
        fill(backend.at(key, 3), key)
    state = backend.snapshot()
    stored = tuple(schema_of(info) for info in backend.keyed.states.values())
    (again,) = open_backend.restore(
        kinds("long"), [state], key="long", rewrite=True, stored_as=StoredAs("int", stored)
    )
    assert again.contents("value") == {(key, 3): key for key in range(5)}
    assert again.snapshot().chain
    assert all(contents(again, key, 3) == filled(key) for key in range(5))


def test_keys_that_a_function_migrates_keep_their_namespaces(open_backend: OpenBackend) -> None:
    backend = open_backend(kinds("int"), "int")
    for key in range(5):
        for namespace in (1, 2):
            fill(backend.at(key, namespace), 10 * key + namespace)
    state = backend.snapshot()
    stored = tuple(schema_of(info) for info in backend.keyed.states.values())
    start = RestoredState(state.chain, {}, True, stored_as=StoredAs("int", stored))
    again = open_backend(kinds("int"), "string", restored=start, migrate_key=lambda n: f"k{n}")
    expected = {(f"k{key}", n): 10 * key + n for key in range(5) for n in (1, 2)}
    assert again.contents("value") == expected


def planned(stored: StateDeclaration, declared: StateDeclaration) -> Any:
    return plan_state("op.n", schema_of(stored.info()), declared.info())


def test_an_upgrade_that_moves_namespaces_is_refused_with_both_types_and_a_remedy() -> None:
    def state(namespace: str) -> ValueState:
        return namespaced(ValueState("long"), namespace)

    assert planned(state("int"), state("long")).changes == ("namespace: int to long",)
    with pytest.raises(RestoreError, match=r"namespace string .*namespace long.*another name"):
        planned(state("string"), state("long"))
    with pytest.raises(RestoreError, match=r"stored as .*: .*it now has one.*Declare it as before"):
        planned(ValueState("long"), state("long"))
    with pytest.raises(RestoreError, match=r"by namespace long and .*it now has none"):
        planned(state("long"), ValueState("long"))
