"""Broadcast state: what is kept, what a restore makes of it, and how it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import MainstayError, QueryError, RestoreError, SchemaError, StateTypeError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.fitting import fitting_columns, units_of
from mainstay.inspect.reading import Origin, UnitsSlice
from mainstay.snapshot.manifest import OperatorUnits
from mainstay.state.broadcast import BroadcastMap, entries_in, unit_type
from mainstay.state.broadcast_declaration import BroadcastMapState
from mainstay.state.declaration import MapState, OperatorListState, StateDeclaration
from mainstay.state.info import StateInfo
from mainstay.state.operator import decode_units
from mainstay.state.redistribution import redistribute
from mainstay.state.upgrade import plan_state, schema_of
from mainstay.testing import rows


def info(declaration: StateDeclaration) -> StateInfo:
    declaration.name = "rules"
    return declaration.info()


def filled(declaration: StateDeclaration, entries: dict[Any, Any]) -> BroadcastMap:
    handle = BroadcastMap(info(declaration))
    handle.may_change = True
    handle.update(entries)
    handle.may_change = False
    return handle


def stored(declaration: StateDeclaration, entries: dict[Any, Any]) -> OperatorUnits:
    handle = filled(declaration, entries)
    return handle.encode(handle.copy_units())


KEPT = [
    (BroadcastMapState("string", "double"), {"a": 1.5, "b": None}),
    (BroadcastMapState("struct<a:int,b:string>", "array<long>"), {(1, "x"): [1, 2]}),
    (BroadcastMapState(), {"a": {"any": object}, 1: {1, 2}}),
    (BroadcastMapState("long", "string"), {}),
]


@pytest.mark.parametrize(("declaration", "entries"), KEPT)
def test_what_is_stored_is_restored(declaration: Any, entries: dict[Any, Any]) -> None:
    units = stored(declaration, entries)
    assert (units.mode, units.count) == ("broadcast", len(entries))
    assert decode_units(units.data).type == unit_type(schema_of(info(declaration)))
    assert entries_in(info(declaration), units) == entries


def test_a_copy_does_not_see_later_changes() -> None:
    handle = filled(BroadcastMapState("string", "long"), {"a": 1})
    kept = handle.copy_units()
    handle.may_change = True
    handle["a"] = 2
    assert kept == [("a", 1)]


def test_what_is_read_may_be_changed_and_changes_nothing() -> None:
    handle = filled(BroadcastMapState("string", "array<long>"), {"a": [1]})
    handle["a"].append(2)
    assert handle["a"] == [1]
    with pytest.raises(KeyError, match="'rules' has no entry 'b'"):
        handle["b"]
    with pytest.raises(MainstayError, match="broadcast input"):
        del handle["a"]


def test_types_are_checked() -> None:
    handle = filled(BroadcastMapState("string", "long"), {})
    handle.may_change = True
    with pytest.raises(StateTypeError, match=r"'rules'.*'x'"):
        handle.put("a", "x")
    with pytest.raises(StateTypeError, match="a map key"):
        handle.put(1, 1)
    with pytest.raises(SchemaError, match="a map key cannot be"):
        BroadcastMapState("array<int>", "long")


def test_it_is_of_no_use_outside_a_running_job() -> None:
    state = BroadcastMapState("string", "long")
    state.__set_name__(object, "rules")
    for call in (lambda: state.get("a"), lambda: state.put("a", 1), lambda: len(state)):
        with pytest.raises(MainstayError, match="outside a running job"):
            call()
    assert repr(state) == "BroadcastMapState('string', 'long')"


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
def test_after_a_rescale_every_subtask_has_one_whole_copy(parallelism: int) -> None:
    declaration = BroadcastMapState("string", "long")
    units = stored(declaration, {"a": 1, "b": 2})
    nothing = stored(declaration, {})
    for old in ([units, units], [units], [nothing, units]):
        shares = redistribute([{"rules": each} for each in old], parallelism)
        held = [entries_in(info(declaration), share["rules"]) for share in shares]
        assert held == [{"a": 1, "b": 2}] * parallelism


# ---------------------------------------------------------------- upgrades


def upgraded(before: StateDeclaration, after: StateDeclaration, entries: Any) -> Any:
    plan = plan_state("f.rules", schema_of(info(before)), info(after))
    units = plan.units(decode_units(stored(before, entries).data))
    return dict(zip(units.field(0).to_pylist(), units.field(1).to_pylist(), strict=True))


def test_keys_and_values_are_converted_or_migrated() -> None:
    before = BroadcastMapState("int", "int")
    wider = BroadcastMapState("long", "long")
    assert upgraded(before, wider, {1: 2, 3: None}) == {1: 2, 3: None}
    texts = BroadcastMapState("int", "string", migrate=lambda n: None if n < 0 else f"n{n}")
    assert upgraded(before, texts, {1: 2, 3: -1, 4: None}) == {1: "n2", 4: None}


@pytest.mark.parametrize(
    "after", [MapState("int", "int"), OperatorListState("int", "broadcast"), ms.ValueState("int")]
)
def test_it_becomes_no_state_of_another_kind(after: StateDeclaration) -> None:
    with pytest.raises(RestoreError, match=r"broadcast-map of int to int \(broadcast\)"):
        plan_state("f.rules", schema_of(info(BroadcastMapState("int", "int"))), info(after))


# ---------------------------------------------------------------- as a table

COLUMNS = StateColumns("f", schema_of(info(BroadcastMapState("string", "long"))), None)


def test_one_copy_is_shown() -> None:
    declaration = BroadcastMapState("string", "long")
    units, nothing = stored(declaration, {"a": 1, "b": 2}), stored(declaration, {})
    for shares in ((units, units), (nothing, units)):
        table = UnitsSlice(COLUMNS, tuple((n, u.data) for n, u in enumerate(shares))).read()
        assert table.to_pydict() == {"map_key": ["a", "b"], "rules": [1, 2]}
    assert UnitsSlice(COLUMNS, ((0, nothing.data),)).read().num_rows == 0
    assert UnitsSlice(COLUMNS, ()).read().column_names == ["map_key", "rules"]


def test_a_table_becomes_the_copy_of_the_first_subtask() -> None:
    table = pa.table({"map_key": ["a", "b"], "rules": pa.array([1, None], pa.int32())})
    assert fitting_columns(COLUMNS, table.schema) == ["map_key", "rules"]
    first, *others = units_of(COLUMNS, table, 3)
    assert first.to_pylist() == [{"map_key": "a", "value": 1}, {"map_key": "b", "value": None}]
    assert [len(each) for each in others] == [0, 0]
    assert {each.type for each in (first, *others)} == {unit_type(COLUMNS.schema)}


@pytest.mark.parametrize(
    ("keys", "problem"), [(["a", "a"], "'a' occurs more than once"), (["a", None], "null")]
)
def test_entries_that_cannot_be_are_refused(keys: list[Any], problem: str) -> None:
    table = pa.table({"map_key": pa.array(keys, pa.string()), "rules": [1, 2]})
    with pytest.raises(StateTypeError, match=problem):
        units_of(COLUMNS, table, 1)


# ---------------------------------------------------------------- a job


class Priced(ms.CoProcess):
    rules = ms.BroadcastMapState("string", "int")

    def process_left(self, row: Any, ctx: Any) -> Any:
        return row.n, len(self.rules)

    def process_right(self, row: Any, ctx: Any) -> None:
        self.rules[row.name] = row.price


class Wider(Priced):
    rules = ms.BroadcastMapState("string", "long")


def started(place: Path, function: Any, parallelism: int, prices: Any, restore: Any = None) -> Any:
    env = ms.Environment(
        spark="embedded",
        parallelism=parallelism,
        snapshots=ms.Snapshots(place, every="1h"),
        restore=restore,
    )
    orders = env.source(rows("n long", [(n,) for n in range(10)]), uid="orders")
    named = env.source(rows("name string, price int", prices), uid="prices")
    both = orders.connect(named.broadcast(), wait_for_right=True)
    both.process(function, "n long, known long", uid="priced").sink(Memory(), uid="out")
    return env.start("prices")


def test_a_job_keeps_it_in_snapshots_and_savepoints_at_any_parallelism(tmp_path: Path) -> None:
    prices = [("pen", 2), ("cup", 7)]
    job = started(tmp_path / "first", Priced(), 2, prices)
    job.wait(timeout=120)
    answer = job.query("priced.rules", at="committed")
    assert answer.value == {"pen": 2, "cup": 7}
    assert sorted(answer.rows(), key=lambda row: row["rules"]) == [
        {"map_key": "pen", "rules": 2},
        {"map_key": "cup", "rules": 7},
    ]
    origin = str(tmp_path / "first")
    again = started(tmp_path / "second", Wider(), 3, [*prices, ("hat", 9)], restore=origin)
    again.wait(timeout=120)
    with pytest.raises(QueryError, match="is over, so there is no live state"):
        again.query("priced.rules")
    assert again.query("priced.rules", at="committed").value == {"pen": 2, "cup": 7, "hat": 9}
    operator = Origin.open(str(tmp_path / "second")).manifest.operators["priced"]
    assert [each.units["rules"].count for each in operator.subtasks] == [3, 3, 3]
