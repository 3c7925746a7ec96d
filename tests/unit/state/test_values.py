"""Value types: what is kept of a value, what is given back, what is refused."""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict, namedtuple
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, Inexact, localcontext
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstay.errors import SchemaError, StateTypeError
from mainstay.schema import row_class
from mainstay.state.values import PICKLED, ValueType

UTC = timezone.utc


class Color(str, Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class LocalTime(datetime):
    """What pandas' Timestamp is: a datetime with a class of its own."""

    nanosecond = 0


class NoTime(datetime):
    """What pandas' NaT is: a datetime that stands for none."""

    def date(self) -> Any:
        raise ValueError("NaTType does not support date")


class Day(date):
    pass


class Bytes(bytes):
    def __bytes__(self) -> bytes:
        return b"something else"


@pytest.mark.parametrize(
    ("ddl", "given", "kept"),
    [
        ("long", 5, 5),
        ("long", np.int32(5), 5),
        ("long", np.uint64(5), 5),
        ("long", Level.HIGH, 3),
        ("double", 5, 5.0),
        ("double", np.float32(0.5), 0.5),
        ("double", np.float64(0.1), 0.1),
        ("double", np.int64(3), 3.0),
        ("double", Decimal("0.5"), 0.5),
        ("double", Fraction(1, 2), 0.5),
        ("double", 1 << 60, float(1 << 60)),
        ("float", 0.1, float(np.float32(0.1))),
        ("float", math.inf, math.inf),
        ("boolean", np.True_, True),
        ("string", Color.RED, "red"),
        ("string", np.str_("x"), "x"),
        ("binary", bytearray(b"x"), b"x"),
        ("binary", memoryview(b"abcd")[::2], b"ac"),
        ("binary", Bytes(b"x"), b"x"),
        ("decimal(5,2)", 7, Decimal("7.00")),
        ("decimal(5,2)", Decimal("1.5"), Decimal("1.50")),
        ("date", Day(2024, 1, 2), date(2024, 1, 2)),
        ("timestamp", datetime(2024, 1, 2), datetime(2024, 1, 2, tzinfo=UTC)),
        (
            "timestamp",
            datetime(2024, 1, 2, 12, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 1, 2, 10, tzinfo=UTC),
        ),
        ("timestamp_ntz", datetime(2024, 1, 2), datetime(2024, 1, 2)),
        (
            "timestamp_ntz",
            datetime(2024, 1, 2, 12, tzinfo=timezone(timedelta(hours=2))),
            datetime(2024, 1, 2, 10),
        ),
        ("timestamp_ntz", LocalTime(2024, 1, 2, 3), datetime(2024, 1, 2, 3)),
        ("array<int>", (n for n in range(3)), (0, 1, 2)),
        ("array<double>", np.array([1, 2]), (1.0, 2.0)),
        ("map<string,int>", OrderedDict(a=1), (("a", 1),)),
        ("map<string,int>", [("a", 1), ["b", None]], (("a", 1), ("b", None))),
        ("map<string,int>", [("a", 1), ("a", 2)], (("a", 2),)),
        ("struct<a:int,b:string>", [1, "x"], (1, "x")),
        ("struct<a:int,b:string>", {"b": "x"}, (None, "x")),
        ("struct<a:int not null>", (1,), (1,)),
    ],
)
def test_a_value_is_kept_in_the_plain_form_of_its_type(ddl, given, kept):
    frozen = ValueType.of(ddl).freeze(given)
    assert frozen == kept
    assert isinstance(frozen, tuple) or type(frozen) is type(kept)


@pytest.mark.parametrize("ddl", ["float", "double"])
@pytest.mark.parametrize("nan", [math.nan, -math.nan, np.float32("nan"), Decimal("NaN")])
def test_there_is_one_nan(ddl, nan):
    value_type = ValueType.of(ddl)
    kept = value_type.freeze(nan)
    assert math.isnan(kept)
    assert kept is value_type.from_array(value_type.to_array([kept]))[0]


@pytest.mark.parametrize(
    ("ddl", "wrong"),
    [
        ("long", True),
        ("long", np.True_),
        ("long", 1.0),
        ("long", np.float64(1)),
        ("long", "1"),
        ("long", Decimal(1)),
        ("long", 1 << 63),
        ("long", np.array([1, 2])),
        ("long", int),
        ("byte", 128),
        ("byte", -129),
        ("double", True),
        ("double", np.False_),
        ("double", "1.0"),
        ("double", b"1.0"),
        ("double", 1j),
        ("double", np.complex128(1)),
        ("double", (1 << 53) + 1),
        ("double", 10**400),
        ("double", np.array([1.0])),
        ("double", np.datetime64("2024-01-01")),
        ("double", Decimal("sNaN")),
        ("double", float),
        ("float", 1e300),
        ("boolean", 1),
        ("boolean", "true"),
        ("string", b"x"),
        ("string", 5),
        ("string", "\ud800"),
        ("binary", "x"),
        ("binary", [1, 2]),
        ("decimal(5,2)", 1.5),
        ("decimal(5,2)", True),
        ("decimal(5,2)", Decimal("1000")),
        ("decimal(5,2)", Decimal("0.001")),
        ("decimal(5,2)", Decimal("NaN")),
        ("decimal(5,2)", Decimal("Infinity")),
        ("date", datetime(2024, 1, 1)),
        ("date", "2024-01-01"),
        ("timestamp", date(2024, 1, 1)),
        ("timestamp", NoTime(2024, 1, 1)),
        ("timestamp", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        ("timestamp_ntz", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))),
        ("array<int>", 5),
        ("array<int>", "12"),
        ("array<int>", b"12"),
        ("array<int>", bytearray(b"12")),
        ("array<int>", {1: 2}),
        ("array<int>", list),
        ("array<int>", np.array(5)),
        ("map<string,int>", "ab"),
        ("map<string,int>", ["ab"]),
        ("map<string,int>", [("a", 1, 2)]),
        ("map<string,int>", {None: 1}),
        ("map<string,int>", 5),
        ("struct<a:int,b:int>", (1,)),
        ("struct<a:int,b:int>", {"a": 1, "c": 2}),
        ("struct<a:int,b:int>", "ab"),
        ("struct<a:int not null>", (None,)),
        ("struct<a:int not null>", {}),
    ],
)
def test_what_does_not_fit_is_refused(ddl, wrong):
    with pytest.raises(StateTypeError, match="does not fit the declared type"):
        ValueType.of(ddl).freeze(wrong)


def test_a_timestamp_with_nanoseconds_is_refused():
    value = LocalTime(2024, 1, 1)
    value.nanosecond = 1
    with pytest.raises(StateTypeError, match="timestamp"):
        ValueType.of("timestamp").freeze(value)


def test_an_error_names_the_value_its_class_and_the_type_and_stays_readable():
    with pytest.raises(StateTypeError, match=r"^'x' \(str\) .* type long\. Convert it"):
        ValueType.of("long").freeze("x")
    with pytest.raises(StateTypeError) as caught:
        ValueType.of("long").freeze("x" * 10_000)
    assert len(str(caught.value)) < 500


def test_a_decimal_does_not_depend_on_the_context_of_the_caller():
    with localcontext() as context:
        context.prec = 2
        context.traps[Inexact] = True
        assert ValueType.of("decimal(10,2)").freeze(Decimal("12345.67")) == Decimal("12345.67")


def test_a_struct_with_names_is_taken_by_name():
    struct = ValueType.of("struct<a:int,b:int>")
    swapped = row_class(pa.schema([("b", pa.int32()), ("a", pa.int32())]))((2, 1))
    pair = namedtuple("pair", "b a")(2, 1)
    assert struct.freeze(swapped) == struct.freeze(pair) == (1, 2)
    assert struct.freeze(struct.freeze((1, 2))) == (1, 2)
    with pytest.raises(StateTypeError, match="Row"):
        struct.freeze(row_class(pa.schema([("a", pa.int32()), ("c", pa.int32())]))((1, 2)))


@pytest.mark.parametrize("ddl", ["long", "double", "string", "binary", "date", "decimal(4,2)"])
def test_scalars_need_no_thawing(ddl):
    assert ValueType.of(ddl).thaw is None


@pytest.mark.parametrize(
    ("ddl", "given", "thawed"),
    [
        ("array<array<int>>", [[1], None], [[1], None]),
        ("map<string,array<int>>", {"a": [1], "b": None}, {"a": [1], "b": None}),
        ("map<struct<a:int>,int>", {(1,): 2}, {(1,): 2}),
        ("struct<a:array<int>,b:map<string,int>>", ([1], {"x": 1}), ([1], {"x": 1})),
    ],
)
def test_what_is_thawed_is_new_each_time_and_kept_forms_are_hashable(ddl, given, thawed):
    value_type = ValueType.of(ddl)
    kept = value_type.freeze(given)
    hash(kept)
    assert value_type.thaw is not None
    one, other = value_type.thaw(kept), value_type.thaw(kept)
    assert one == other == thawed
    assert one is not other
    assert value_type.freeze(one) == kept


def test_a_struct_is_thawed_to_a_row():
    struct = ValueType.of("struct<a:int,b:string>")
    assert struct.thaw is not None
    row = struct.thaw(struct.freeze({"a": 1, "b": "x"}))
    assert (row.a, row["b"], row) == (1, "x", (1, "x"))


@pytest.mark.parametrize(
    "ddl",
    ["map<array<int>,int>", "map<map<int,int>,int>", "array<map<struct<a:array<int>>,int>>"],
)
def test_a_map_key_that_storage_cannot_compare_is_refused_when_declared(ddl):
    with pytest.raises(SchemaError, match="a map key cannot be or contain the type"):
        ValueType.of(ddl)


@pytest.mark.parametrize("plain", [5, 1.5, "x", b"x", True])
def test_plain_values_of_no_declared_type_are_kept_as_they_are(plain):
    assert ValueType.of(None).freeze(plain) is plain


def test_other_values_of_no_declared_type_are_kept_as_bytes():
    undeclared = ValueType.of(None)
    assert undeclared.ddl == PICKLED
    assert undeclared.thaw is not None
    given = {"a": [1]}
    kept = undeclared.freeze(given)
    given["a"].append(2)
    thawed = undeclared.thaw(kept)
    assert thawed == {"a": [1]}
    thawed["a"].append(3)
    assert undeclared.thaw(kept) == {"a": [1]}


def test_a_subclass_of_a_plain_type_keeps_its_class():
    undeclared = ValueType.of(None)
    assert undeclared.thaw is not None
    thawed = undeclared.thaw(undeclared.freeze(Level.HIGH))
    assert type(thawed) is Level


def test_what_cannot_be_pickled_is_refused_with_the_reason():
    with pytest.raises(StateTypeError, match=r"cannot be pickled \(.*Declare a type") as caught:
        ValueType.of(None).freeze(lambda: None)
    assert caught.value.__cause__ is not None


def test_restoring_pickled_values_does_not_pickle_them_again():
    undeclared = ValueType.of(None)
    kept = [undeclared.freeze(value) for value in ([1], 5, "x")] + [None]
    restored = undeclared.from_array(undeclared.to_array(kept))
    assert restored[0].data == kept[0].data
    assert restored[1:] == [5, "x", None]


@pytest.mark.parametrize("ddl", ["long", "struct<a:int,b:array<string>>", None])
def test_a_value_type_is_shipped_by_its_name(ddl):
    value_type = ValueType.of(ddl)
    shipped = pickle.loads(pickle.dumps(value_type))
    assert (shipped.ddl, shipped.arrow) == (value_type.ddl, value_type.arrow)


def test_a_column_in_chunks_is_read_as_one():
    column = pa.chunked_array([pa.array([1.5, None]), pa.array([2.5])])
    assert ValueType.of("double").from_array(column) == [1.5, None, 2.5]


def test_rows_of_plain_values_are_read_from_a_column_as_they_were_kept() -> None:
    rows = ValueType.of("array<struct<a:long,b:string,c:decimal(9,2),d:boolean,e:binary>>")
    given = [[(1, "x", Decimal("1.20"), True, b"z"), None, (None,) * 5], [], None]
    kept = [None if each is None else rows.freeze(each) for each in given]
    read = rows.from_array(rows.to_array(kept))
    assert read == kept
    assert [type(each) for each in read] == [type(each) for each in kept]
    assert type(read[0][0]) is type(kept[0][0])
