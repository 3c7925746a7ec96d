"""States as tables, without Spark: columns, slices of files, filters, and what does not fit."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import GraphError, SavepointError, StateTypeError
from mainstay.snapshot.manifest import StateSchema
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.savepoint import (
    Savepoint,
    SavepointOperator,
    SavepointState,
    keyed_path,
    publish,
)
from mainstay.snapshot.savepoint_files import KeyedRows, write_keyed
from mainstay.state.declaration import ListState, OperatorListState, ValueState
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import HASH_ID

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    Not,
)

from mainstay.inspect import reading as state_reading
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.declared import columns_of, declared_by_hand, joined
from mainstay.inspect.fitting import fitting_columns, kept_rows, units_of
from mainstay.inspect.reading import Origin, StateView
from mainstay.spark.states.filters import groups_left

HOUR_US = 3_600_000_000
GROUPS = 16
STAMP = datetime(2024, 1, 1, tzinfo=timezone.utc)


def test_importing_the_package_imports_no_pyspark() -> None:
    program = (
        "import sys, mainstay as ms; assert callable(getattr) and ms.spark\n"
        "assert not [name for name in sys.modules if name.startswith('pyspark')]\n"
        "assert ms.spark.read_state.__name__ == 'read_state'\n"
        "assert 'pyspark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import mainstay.spark

    with pytest.raises(AttributeError, match="has no attribute 'read_stat'"):
        mainstay.spark.read_stat  # noqa: B018


# ---------------------------------------------------------------- columns


def columns(
    kind: str = "value",
    value: str = "long",
    *,
    name: str = "total",
    key: str = "string",
    names: tuple[str, ...] = ("customer",),
    map_key: str | None = None,
    ttl_us: int | None = None,
    namespace: str | None = None,
) -> StateColumns:
    schema = StateSchema(name, kind, value, map_key, None, ttl_us, namespace)
    return StateColumns("totals", schema, key, names)


def names_of(state: StateColumns) -> list[str]:
    return [field.name for field in state.fields()]


def test_names_that_are_taken_get_an_underscore() -> None:
    assert names_of(columns(name="Customer")) == ["customer", "Customer_", "key_group"]
    assert names_of(columns(name="key_group")) == ["customer", "key_group", "key_group_"]
    struct = columns(key="struct<a:int,b:int>", names=("touched_at", "b"), ttl_us=1)
    assert names_of(struct) == ["touched_at", "b", "total", "touched_at_", "key_group"]
    assert struct.touched_column == "touched_at_"
    assert struct.group_column == "key_group"
    by_namespace = columns(names=("namespace",), namespace="long")
    assert names_of(by_namespace) == ["namespace", "namespace_", "total", "key_group"]
    assert by_namespace.key_columns() == ["namespace"]


def test_a_key_that_a_function_made_is_one_column() -> None:
    made = columns(key="struct<a:int,b:int>", names=())
    assert names_of(made) == ["key", "total", "key_group"]
    assert made.key_columns() == ["key"]


KEY = pa.array(["a", "b", "c"])
SHOWN: list[tuple[StateColumns, dict[str, Any]]] = [
    (columns(), {"customer": KEY, "total": [1, 2, 3]}),
    (columns("list"), {"customer": KEY, "total": [[1], [2, 3], [4]]}),
    (
        columns("map", map_key="string"),
        {"customer": KEY, "map_key": ["x", "y", "x"], "total": [1, None, 2]},
    ),
    (
        columns(key="struct<a:string,b:int>", names=("a", "b")),
        {"a": KEY, "b": pa.array([1, None, 2], pa.int32()), "total": [1, 2, 3]},
    ),
    (columns(ttl_us=1), {"customer": KEY, "total": [1, 2, 3], "touched_at": [STAMP] * 3}),
    (
        columns("list", ttl_us=1),
        {
            "customer": KEY,
            "total": [[1], [2, 3], [4]],
            "touched_at": [[STAMP], [STAMP] * 2, [STAMP]],
        },
    ),
    (
        columns(namespace="long"),
        {"customer": pa.array(["a", "a", "b"]), "namespace": [1, 2, 1], "total": [1, 2, 3]},
    ),
    (
        columns("map", map_key="string", ttl_us=1, namespace="timestamp"),
        {
            "customer": pa.array(["a", "a", "b"]),
            "namespace": [STAMP] * 3,
            "map_key": ["x", "y", "x"],
            "total": [1, None, 2],
            "touched_at": [STAMP] * 3,
        },
    ),
    (
        columns("map", map_key="string", ttl_us=1),
        {
            "customer": KEY,
            "map_key": ["x", "y", "x"],
            "total": [1, None, 2],
            "touched_at": [STAMP] * 3,
        },
    ),
]


@pytest.mark.parametrize(("state", "data"), SHOWN)
def test_what_is_shown_is_stored_again_as_it_was(state: StateColumns, data: dict[str, Any]) -> None:
    groups = np.array([0, 1, 2], np.uint16)
    shown = pa.table({**data, "key_group": [0, 1, 2]}, schema=pa.schema(state.fields()))
    arrays = [column.combine_chunks() for column in shown.columns[:-1]]
    assert kept_rows(state, arrays).all()
    stored = state.stored(arrays, now_us=7)
    assert stored.column_names[0] == "key"
    again = state.shown(KeyedRows("total", stored, groups))
    assert again.equals(shown)
    cut = state.shown(KeyedRows("total", stored.slice(1), groups[1:]))
    assert cut.to_pylist() == shown.slice(1).to_pylist()


def test_what_has_no_stamp_is_stamped_with_now() -> None:
    for kind, values in (("value", [5]), ("list", [[5, 6]])):
        state = columns(kind, ttl_us=1)
        value = pa.array(values, state.value_arrow())
        (row,) = state.stored([pa.array(["a"]), value], now_us=7).to_pylist()
        elements = row["value"] if kind == "list" else [row["value"]]
        assert [element["at"] for element in elements] == [7] * len(elements)


# ---------------------------------------------------------------- slices of files


def savepoint(folder: Path, parts: int = 4) -> dict[str, int]:
    """A savepoint of a hundred customers in some files; the key-group of each customer."""
    storage = open_storage(str(folder))
    keys = pa.array([f"c{n}" for n in range(100)])
    groups = key_groups([keys], GROUPS)
    files = []
    for part in range(parts):
        mine = np.flatnonzero(groups * parts // GROUPS == part)
        table = pa.table({"key": keys.take(pa.array(mine)), "value": pa.array(mine)})
        rows = KeyedRows("total", table, groups[mine])
        files.append(write_keyed(storage, keyed_path("totals", "total", part), rows, "totals"))
    state = SavepointState(StateSchema("total", "value", "long"), tuple(files))
    operator = SavepointOperator("totals", 1, "string", ("customer",), (state,))
    publish(
        storage, Savepoint("j", 1, 1.0, "exactly_once", GROUPS, HASH_ID, {"totals": operator}, {})
    )
    return dict(zip(keys.to_pylist(), groups.tolist(), strict=True))


def view_at(folder: Path) -> StateView:
    return Origin.open(str(folder)).view("totals", "total")


def test_slices_cover_every_key_group_once(tmp_path: Path) -> None:
    expected = savepoint(tmp_path)
    for least in (1, 3, 16, 99):
        slices = view_at(tmp_path).slices(least)
        assert len(slices) == min(least, GROUPS)
        tables = [part.read() for part in slices]
        rows = [row for table in tables for row in table.to_pylist()]
        assert {row["customer"]: row["key_group"] for row in rows} == expected
        assert len(rows) == len(expected)


def test_a_slice_reads_only_the_files_of_its_key_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = savepoint(tmp_path)
    read: set[str] = set()

    class Watched:
        def __init__(self, place: str) -> None:
            self._storage = open_storage(place)

        def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
            read.add(path)
            return self._storage.read(path, start, length)

    view = view_at(tmp_path)
    monkeypatch.setattr(state_reading, "open_existing", Watched)
    group = expected["c7"]
    (part,) = view.slices(8, [group])
    customers = {row["customer"] for row in part.read().to_pylist()}
    assert customers == {name for name, found in expected.items() if found == group}
    assert read == {keyed_path("totals", "total", group * 4 // GROUPS)}
    parts = view.slices(1, [0, 1, 15])
    assert len(parts) == 1, "scattered key-groups make no more slices"
    rows = parts[0].read().to_pylist()
    assert {row["key_group"] for row in rows} == {0, 1, 15} & set(expected.values())


# ---------------------------------------------------------------- filters


def left(folder: Path, *filters: Filter) -> list[int] | None:
    return groups_left(view_at(folder), filters)


def test_filters_on_the_key_leave_its_key_groups(tmp_path: Path) -> None:
    group_of = savepoint(tmp_path)
    is_c7 = EqualTo(("customer",), "c7")
    assert left(tmp_path, IsNotNull(("customer",)), is_c7) == [group_of["c7"]]
    some = In(("customer",), ("c1", "c2", "nobody"))
    assert {group_of["c1"], group_of["c2"]} <= set(left(tmp_path, some) or ())
    assert left(tmp_path, In(("customer",), tuple(f"x{n}" for n in range(2000)))) is None
    assert left(tmp_path, Not(is_c7)) is None
    assert left(tmp_path, EqualTo(("total",), 7)) is None
    assert left(tmp_path, EqualTo(("customer", "part"), "c7")) is None
    assert left(tmp_path, is_c7, EqualTo(("key_group",), group_of["c7"] + 1)) == []


def test_filters_on_the_key_group_leave_those(tmp_path: Path) -> None:
    savepoint(tmp_path)
    column = ("key_group",)
    assert left(tmp_path, GreaterThan(column, 3), LessThanOrEqual(column, 5)) == [4, 5]
    assert left(tmp_path, In(column, (1, 2, 99))) == [1, 2]
    assert left(tmp_path, GreaterThan(column, -1)) is None


def test_a_key_of_several_columns_needs_all_and_types_that_are_exact(tmp_path: Path) -> None:
    savepoint(tmp_path)
    view = view_at(tmp_path)
    several = columns(key="struct<day:date,n:int>", names=("day", "n"))
    view = StateView(view.place, view.manifest, several)
    day = EqualTo(("day",), date(2020, 1, 1))
    assert groups_left(view, [day]) is None
    expected = key_groups([pa.array([date(2020, 1, 1)]), pa.array([3], pa.int32())], GROUPS)
    assert groups_left(view, [day, EqualTo(("n",), 3)]) == expected.tolist()
    both = groups_left(view, [day, In(("n",), (3, 4))])
    assert both is not None
    assert expected[0] in both
    inexact = StateView(view.place, view.manifest, columns(key="double"))
    assert groups_left(inexact, [EqualTo(("customer",), 0.5)]) is None


# ---------------------------------------------------------------- what does not fit


def unfit(state: StateColumns, data: dict[str, Any]) -> str:
    fields = state.data_fields()[: len(data)]
    arrays = [pa.array(data[field.name], field.type) for field in fields]
    with pytest.raises(StateTypeError) as caught:
        kept_rows(state, arrays)
    return str(caught.value)


def test_rows_that_cannot_be_stored_are_named_by_their_key() -> None:
    keys = ["a", "b"]
    where = "operator 'totals', state 'total': the key 'b' "
    assert unfit(columns(), {"customer": keys, "total": [1, None]}).startswith(
        where + "has a null in the place of its value (1 such rows"
    )
    lists = columns("list")
    assert where + "has a null in a list" in unfit(
        lists, {"customer": keys, "total": [[1], [2, None]]}
    )
    entries = columns("map", map_key="string")
    data = {"customer": keys, "map_key": ["x", None], "total": [1, 2]}
    assert where + "has an entry whose map_key is null" in unfit(entries, data)
    twice = {"customer": ["b", "b"], "map_key": ["x", "x"], "total": [1, 2]}
    assert where + "occurs more than once" in unfit(entries, twice)
    by_namespace = columns(namespace="long")
    data = {"customer": keys, "namespace": [1, None], "total": [1, 2]}
    assert where + "has a namespace that is null" in unfit(by_namespace, data)
    twice = {"customer": ["b", "b"], "namespace": [4, 4], "total": [1, 2]}
    assert where + "occurs more than once" in unfit(by_namespace, twice)
    no_stamp = {"customer": keys, "total": [1, 2], "touched_at": [STAMP, None]}
    assert where + "has no touched_at" in unfit(columns(ttl_us=1), no_stamp)
    short = {"customer": keys, "total": [[1], [2, 3]], "touched_at": [[STAMP], [STAMP]]}
    assert where + "has a list that is not as long as its touched_at" in unfit(
        columns("list", ttl_us=1), short
    )


def test_keys_are_compared_as_a_job_compares_them() -> None:
    state = columns(key="double")
    text = unfit(state, {"customer": [0.0, 1.0, -0.0], "total": [1, 2, 3]})
    assert "the key 0.0 occurs more than once (2 such rows" in text
    unfit(state, {"customer": [None, None], "total": [1, 2]})
    unfit(state, {"customer": [float("nan"), float("nan")], "total": [1, 2]})


def test_empty_lists_are_left_out() -> None:
    arrays = [pa.array(["a", "b"]), pa.array([[], [1]], pa.list_(pa.int64()))]
    assert kept_rows(columns("list"), arrays).tolist() == [False, True]


def test_a_column_may_be_narrower_and_the_group_may_be_there_or_not() -> None:
    given = pa.schema([("key_group", pa.int32()), ("total", pa.int16()), ("customer", pa.string())])
    assert fitting_columns(columns(), given) == ["customer", "total"]
    struct = columns(value="struct<a:int NOT NULL,b:string>")
    value = pa.struct([("b", pa.string()), ("a", pa.int32())])
    assert fitting_columns(struct, pa.schema([("customer", pa.string()), ("total", value)]))
    more = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.int8())])
    with pytest.raises(StateTypeError, match="c: not in the state"):
        fitting_columns(struct, pa.schema([("customer", pa.string()), ("total", more)]))


def test_units_belong_to_subtasks_that_there_are() -> None:
    state = StateColumns("o", StateSchema("seen", "operator-list", "long", None, "split"), None)
    table = pa.table({"subtask": pa.array([1, 0, 1], pa.int32()), "unit": [10, 20, 30]})
    assert [part.to_pylist() for part in units_of(state, table, None)] == [[20], [10, 30]]
    assert [part.to_pylist() for part in units_of(state, table, 3)] == [[20], [10, 30], []]
    with pytest.raises(StateTypeError, match=r"numbers from 0 to 1; .* numbered from 0 to 0"):
        units_of(state, table, 1)


# ---------------------------------------------------------------- declarations


def test_declarations_by_hand_are_those_of_key_by() -> None:
    declared = declared_by_hand(
        {
            ("a", "n"): ValueState("long"),
            ("a", "l"): ListState("int"),
            ("b", "u"): OperatorListState(),
        },
        {"a": "customer string NOT NULL, region int"},
    )
    state = columns_of(declared, ("a", "l"))
    assert state.key_type == "struct<customer:string,region:int>"
    assert names_of(state) == ["customer", "region", "l", "key_group"]
    assert names_of(columns_of(declared, ("b", "u"))) == ["subtask", "unit"]
    with pytest.raises(GraphError, match="Name each by operator and state"):
        columns_of(declared, "a.n")


def test_a_state_is_added_only_for_the_same_key() -> None:
    base = declared_by_hand({("a", "n"): ValueState("long")}, {"a": "customer string"})
    same = declared_by_hand({("a", "m"): ValueState("int")}, {"a": "customer string"})
    assert set(joined(base, same)["a"].states) == {"n", "m"}
    other = declared_by_hand({("a", "m"): ValueState("int")}, {"a": "customer long"})
    with pytest.raises(SavepointError, match="keys of type string in the savepoint and of type"):
        joined(base, other)
