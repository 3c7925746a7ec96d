"""Rows as user functions see them, and their way from and to record batches."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.errors import SchemaError
from mainstay.schema import batch_to_rows, parse_schema, row_class, rows_to_batch
from mainstay.spelling import counted

ORDERS = parse_schema("customer string, amount long")
WHERE = "operator 'totals'"


class PysparkRow(tuple):
    """Shaped as pyspark's Row: a tuple that keeps its names in ``__fields__``."""

    def __new__(cls, **columns):
        row = tuple.__new__(cls, columns.values())
        row.__fields__ = list(columns)
        return row


def order(*values):
    return row_class(ORDERS)(values)


def round_trip(rows, ddl):
    batch = rows_to_batch(rows, parse_schema(ddl), WHERE)
    batch.validate(full=True)
    return batch_to_rows(batch, row_class(batch.schema))


def refusal(rows, ddl):
    with pytest.raises(SchemaError) as caught:
        rows_to_batch(rows, parse_schema(ddl), WHERE)
    assert str(caught.value).startswith(WHERE)
    return str(caught.value)


def test_a_column_is_reached_by_attribute_name_and_position():
    row = order("alice", 5)
    assert (row.customer, row["amount"], row[0], row[-1], row[:1]) == (
        "alice",
        5,
        "alice",
        5,
        ("alice",),
    )


def test_a_row_is_a_tuple():
    row = order("alice", 5)
    customer, amount = row
    assert (customer, amount) == row == ("alice", 5)
    assert hash(row) == hash(("alice", 5))
    assert not hasattr(row, "__dict__")


def test_a_row_shows_its_columns():
    assert repr(order("alice", 5)) == "Row(customer='alice', amount=5)"
    assert order("alice", 5)._fields == ("customer", "amount")
    assert order("alice", 5).asDict() == {"customer": "alice", "amount": 5}


def test_columns_named_as_tuple_methods_are_columns():
    row = row_class(parse_schema("count int, index int"))((1, 2))
    assert (row.count, row.index) == (1, 2)


def test_columns_with_names_that_python_needs_are_reached_by_name():
    names = ["a b", "class", "asDict", "_fields", "__len__", "__class__", "__reduce__"]
    row = row_class(pa.schema([(name, pa.int64()) for name in names]))(range(7))
    assert [row[name] for name in names] == list(range(7))
    assert row.asDict() == dict(zip(names, range(7), strict=True))
    assert pickle.loads(pickle.dumps(row)).asDict() == row.asDict()


def test_an_unknown_column_is_reported_with_the_known_ones():
    row = order("alice", 5)
    with pytest.raises(
        AttributeError, match="no column 'amuont'; its columns are customer, amount"
    ):
        _ = row.amuont
    with pytest.raises(KeyError, match="no column 'amuont'; its columns are customer, amount"):
        _ = row["amuont"]


def test_a_row_survives_pickling_and_copying():
    row = order("alice", order("bob", [1]))
    for copied in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert copied == row
        assert type(copied) is type(row)
        assert copied.amount.customer == "bob"


def test_schemas_with_the_same_names_share_a_row_class():
    assert row_class(ORDERS) is row_class(parse_schema("customer int, amount string"))
    assert row_class(ORDERS) is not row_class(parse_schema("amount long, customer string"))


def test_a_row_class_with_repeated_names_is_refused():
    with pytest.raises(SchemaError, match="'a' occur more than once"):
        row_class(pa.schema([("a", pa.int64()), ("a", pa.int64())]))


def test_rows_inside_a_row_become_dicts_when_asked():
    row = order({"k": order("bob", 1)}, [order("eve", 2)])
    assert row.asDict(recursive=True) == {
        "customer": {"k": {"customer": "bob", "amount": 1}},
        "amount": [{"customer": "eve", "amount": 2}],
    }


EVERY_TYPE = (
    "a boolean, b byte, c short, d int, e long, f float, g double, h decimal(10,2), i string, "
    "j binary, k date, l timestamp, m timestamp_ntz, n array<long>, o map<string,long>, "
    "p struct<city:string,at:timestamp>, q array<struct<x:int>>, r map<string,array<timestamp>>"
)
NOON = datetime(2024, 2, 29, 12, 0, 0, 123456)
NOON_UTC = NOON.replace(tzinfo=timezone.utc)
VALUES = (
    *(True, -1, 2, 3, 2**62, 0.5, 0.1, Decimal("1.50"), "é", b"\xff", date(1900, 1, 1)),
    *(NOON_UTC, NOON, [1, None], {"x": 1, "y": None}, ("Oslo", NOON_UTC), [(1,), None]),
    {"t": [NOON_UTC, None], "u": None},
)


def test_values_of_every_type_come_back():
    nothing = (None,) * len(VALUES)
    rows = [VALUES, nothing, VALUES]
    assert round_trip(rows, EVERY_TYPE) == rows
    assert round_trip([VALUES], EVERY_TYPE) == [VALUES]
    assert round_trip([nothing], EVERY_TYPE) == [nothing]
    assert round_trip([], EVERY_TYPE) == []


def test_values_come_back_as_python_types():
    row = round_trip([VALUES], EVERY_TYPE)[0]
    plain = [bool, int, int, int, int, float, float, Decimal, str, bytes, date, datetime, datetime]
    assert [type(value) for value in row[:13]] == plain
    assert row.l.tzinfo is timezone.utc
    assert row.r["t"][0].tzinfo is timezone.utc
    assert row.m.tzinfo is None


def test_a_struct_is_a_row_too():
    row = round_trip([VALUES], EVERY_TYPE)[0]
    assert row.p.city == "Oslo"
    assert row.q[0].x == 1


@given(st.integers(0, 6), st.integers(0, 6))
def test_a_slice_of_a_batch_gives_the_rows_of_the_slice(start, length):
    rows = [VALUES, (None,) * len(VALUES)] * 3
    batch = rows_to_batch(rows, parse_schema(EVERY_TYPE), WHERE).slice(start, length)
    assert batch_to_rows(batch, row_class(batch.schema)) == rows[start : start + length]


def test_a_batch_without_columns_gives_empty_rows():
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert batch_to_rows(batch, row_class(batch.schema)) == [(), ()]


@pytest.mark.parametrize("tz", [None, "UTC"])
def test_timestamps_of_the_first_and_last_year_come_back_and_others_are_refused(tz):
    ends = [datetime(1, 1, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)]
    data_type = pa.timestamp("us", tz=tz)
    batch = pa.record_batch([pa.array(ends, data_type)], names=["at"])
    rows = batch_to_rows(batch, row_class(batch.schema))
    assert [at and at.replace(tzinfo=None) for (at,) in rows] == ends
    beyond = pa.record_batch([pa.array([2**62], pa.int64()).cast(data_type)], names=["at"])
    with pytest.raises(SchemaError, match="years 1 to 9999"):
        batch_to_rows(beyond, row_class(beyond.schema))


def test_dates_beyond_the_last_year_are_refused():
    days = pa.array([2_932_896, None, 2_932_897], pa.int32()).cast(pa.date32())
    batch = pa.record_batch([days], names=["on"])
    cls = row_class(batch.schema)
    assert batch_to_rows(batch.slice(0, 2), cls) == [(date(9999, 12, 31),), (None,)]
    with pytest.raises(SchemaError, match="10000-01-01 reach beyond the years 1 to 9999"):
        batch_to_rows(batch, cls)


def test_timestamps_in_other_units_and_zones_come_out_in_utc():
    values = pa.array([0, 1500], pa.int64()).cast(pa.timestamp("ms", tz="Europe/Paris"))
    batch = pa.record_batch([values], names=["at"])
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    rows = batch_to_rows(batch, row_class(batch.schema))
    assert rows == [(epoch,), (epoch + timedelta(seconds=1.5),)]
    assert rows[0].at.tzinfo is timezone.utc


Pair = namedtuple("Pair", ["amount", "customer"])


@pytest.mark.parametrize(
    "row",
    [
        ("alice", 5),
        ["alice", 5],
        {"amount": 5, "customer": "alice"},
        order("alice", 5),
        row_class(parse_schema("amount long, customer string"))((5, "alice")),
        Pair(5, "alice"),
        PysparkRow(customer="alice", amount=5),
        PysparkRow(amount=5, customer="alice"),
    ],
    ids=["tuple", "list", "dict", "row", "other row", "named tuple", "pyspark", "other pyspark"],
)
def test_a_row_may_be_given_in_any_shape(row):
    batch = rows_to_batch([row, ("bob", 6), row], ORDERS, WHERE)
    assert batch.to_pydict() == {"customer": ["alice", "bob", "alice"], "amount": [5, 6, 5]}
    assert batch.schema == ORDERS


@pytest.mark.parametrize("value", ["alice", None])
def test_a_single_column_may_be_given_bare(value):
    assert round_trip([value, ("bob",)], "customer string") == [(value,), ("bob",)]


@pytest.mark.parametrize("row", [("alice",), ["alice", 5, 6], ()])
def test_a_row_of_the_wrong_length_names_both_numbers(row):
    message = refusal([("bob", 1), row], "customer string, amount long")
    assert (
        f"a row has {counted(len(row), 'value')} but the schema has 2 columns (customer" in message
    )


def test_missing_and_unknown_columns_are_named():
    message = refusal([{"customer": "alice", "amuont": 5}], "customer string, amount long")
    assert "lacks amount and has amuont, which the schema does not" in message
    message = refusal([{"customer": "alice"}], "customer string, amount long")
    assert "a row lacks amount;" in message
    message = refusal([order("alice", 5)], "customer string")
    assert "a row has amount, which the schema does not;" in message


def test_what_is_no_row_is_refused():
    message = refusal(["alice"], "customer string, amount long")
    assert "'alice' is not a row; give a tuple, a list, a dict or a Row" in message


@pytest.mark.parametrize(
    ("value", "ddl", "shown"),
    [
        ("x", "long", "'x' of type str"),
        (1.5, "long", "1.5 of type float"),
        (True, "long", "True of type bool"),
        (300, "byte", "300 of type int"),
        (2**63, "long", f"{2**63} of type int"),
        (True, "double", "True of type bool"),
        (1, "boolean", "1 of type int"),
        (5, "string", "5 of type int"),
        (b"\xff", "string", r"b'\xff' of type bytes"),
        ("\ud800", "string", r"'\ud800' of type str"),
        (Decimal("1.234"), "decimal(10,2)", "Decimal('1.234') of type Decimal"),
        (5, "timestamp", "5 of type int"),
        (date(2024, 1, 1), "timestamp", "datetime.date(2024, 1, 1) of type date"),
        (5, "date", "5 of type int"),
        (NOON, "date", f"{NOON!r} of type datetime"),
        ("abc", "array<string>", "'abc' of type str"),
        (5, "array<long>", "5 of type int"),
        ({"a": 1}, "array<string>", "{'a': 1} of type dict"),
        ([1, 2], "map<long,long>", "[1, 2] of type list"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_its_column_and_type(value, ddl, shown):
    message = refusal([(None,), (value,)], f"total {ddl}")
    assert message.startswith(f"{WHERE}, column 'total': the value {shown} ")
    assert f"does not fit the declared type {ddl}" in message


@pytest.mark.parametrize(
    ("value", "ddl", "inside"),
    [
        ((1, "x"), "struct<a:int,b:int>", "column 'c', field 'b': the value 'x'"),
        ([1, "x"], "array<int>", "column 'c', an element: the value 'x'"),
        ({"x": 1}, "map<int,int>", "column 'c', a map key: the value 'x'"),
        ({1: "x"}, "map<int,int>", "column 'c', a map value: the value 'x'"),
        ({None: 1}, "map<int,int>", "column 'c': a map key is None"),
        ((1,), "struct<a:int,b:int>", "column 'c': a row has 1 value"),
        ({"a": 1}, "struct<a:int,b:int>", "column 'c': a row lacks b"),
        ((1, None), "struct<a:int,b:int NOT NULL>", "column 'c', field 'b': a value is None"),
    ],
)
def test_a_nested_value_that_does_not_fit_is_reported_with_its_place(value, ddl, inside):
    assert inside in refusal([(value,)], f"c {ddl}")


def test_a_long_value_is_cut_in_the_message():
    assert len(refusal([("x" * 10_000,)], "total long")) < 1000


def test_none_in_a_column_that_is_not_null_is_refused():
    message = refusal([("alice",), (None,)], "customer string NOT NULL")
    assert message.startswith(f"{WHERE}, column 'customer': a value is None")


def test_a_null_struct_may_have_fields_that_are_not_null():
    ddl = "c struct<a:int NOT NULL>"
    assert round_trip([(None,), ((1,),)], ddl) == [(None,), ((1,),)]


def test_structs_may_be_given_as_dicts_and_maps_as_pairs():
    rows = [({"b": 2, "a": 1}, [("x", 1)]), ((1, 2), {"x": 1})]
    expected = [((1, 2), {"x": 1})] * 2
    assert round_trip(rows, "s struct<a:int,b:int>, m map<string,int>") == expected


def test_a_struct_of_pairs_is_not_taken_for_named_items():
    ddl = "s struct<a:struct<x:string,y:int>,b:struct<x:string,y:int>>"
    rows = [((("p", 1), ("q", 2)),)]
    assert round_trip(rows, ddl) == rows


def test_datetimes_are_taken_as_utc_or_converted_to_it():
    paris = timezone(timedelta(hours=1))
    rows = [(NOON,), (NOON_UTC,), (NOON.replace(tzinfo=paris),)]
    expected = [(NOON_UTC,), (NOON_UTC,), (NOON_UTC - timedelta(hours=1),)]
    assert round_trip(rows, "at timestamp") == expected


def test_numpy_values_are_taken_where_they_fit():
    assert round_trip([(np.int32(5), np.float64(0.5))], "a long, b double") == [(5, 0.5)]
    assert "of type float64 does not fit" in refusal([(np.float64(5.0),)], "a long")
