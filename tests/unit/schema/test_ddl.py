"""DDL strings, pyspark types and pyarrow types all become the same normalised types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.errors import SchemaError
from mainstay.schema import (
    format_schema,
    format_type,
    parse_schema,
    parse_type,
    to_schema,
    to_type,
)

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("tinyint", pa.int8()),
        ("short", pa.int16()),
        ("smallint", pa.int16()),
        ("int", pa.int32()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("bigint", pa.int64()),
        ("float", pa.float32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(10, 0)),
        ("dec(5)", pa.decimal128(5, 0)),
        ("numeric( 38 , 38 )", pa.decimal128(38, 38)),
        ("string", pa.string()),
        ("varchar(20)", pa.string()),
        ("char(1)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ltz", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("  BigInt\n", pa.int64()),
        ("array<map<string, array<long>>>", pa.list_(pa.map_(pa.string(), pa.list_(pa.int64())))),
        ("struct<>", pa.struct([])),
        ("struct<a:int,b string>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        (
            "STRUCT<a: struct<b: array<decimal(4,2)> NOT NULL COMMENT 'x, y'>>",
            pa.struct([("a", pa.struct([pa.field("b", pa.list_(pa.decimal128(4, 2)), False)]))]),
        ),
    ],
)
def test_a_type_is_read(text, expected):
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    ["customer string, total long", "customer: string, total: long", "customer STRING,total:LONG"],
)
def test_a_schema_is_read_with_or_without_colons(text):
    assert parse_schema(text) == pa.schema([("customer", pa.string()), ("total", pa.int64())])


def test_a_struct_is_read_as_a_schema():
    assert parse_schema("struct<a:int>") == pa.schema([("a", pa.int32())])


def test_names_may_be_keywords_numbers_or_quoted():
    schema = parse_schema("date date, struct struct<x:int>, 1st int, `a ``b`` <,>` int, größe int")
    assert schema.names == ["date", "struct", "1st", "a `b` <,>", "größe"]


def test_not_null_and_comments_may_follow_a_type():
    schema = parse_schema(
        """a int NOT NULL, b int COMMENT 'it''s, "so"' not null, c int comment "d int" """.replace(
            "''", "\\'"
        )
    )
    assert [field.nullable for field in schema] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("customer string, total lng", 23, "'lng' is not a type"),
        ("a", 1, "a type is expected but the text ends"),
        ("a int b", 6, "only NOT NULL"),
        ("a int not b", 6, "only NOT NULL"),
        ("a int,", 6, "a column name is expected but the text ends"),
        ("a int, , b int", 7, "a column name is expected but there is ','"),
        ("a array<int", 11, "'>' is expected but the text ends"),
        ("a array int", 8, "'<' is expected but there is 'int'"),
        ("a map<int>", 9, "',' is expected but there is '>'"),
        ("a int)", 5, r"'\)' is not expected here"),
        ("a int; b int", 5, "';' is not expected here"),
        ("`a int", 0, "'`' is not expected here"),
        ("a int COMMENT b", 14, "the text of the comment"),
        ("a decimal(39)", 2, "a precision of 1 to 38"),
        ("a decimal(0)", 2, "a precision of 1 to 38"),
        ("a decimal(5,6)", 2, "a scale of 0 to the precision"),
        ("a decimal(5,2,1)", 2, r"decimal\(precision,scale\)"),
        ("a decimal(x)", 10, "a number is expected, not 'x'"),
        ("a varchar", 2, r"varchar needs one length, as in varchar\(20\)"),
        ("", 0, "the text is empty"),
        ("   ", 0, "the text is empty"),
        ("a int, b struct<x:int,x:int>", 16, "'x' occur more than once"),
        ("a int, b int, a long", 0, "'a' occur more than once"),
    ],
)
def test_a_wrong_schema_is_quoted_and_pointed_into(text, position, message):
    with pytest.raises(SchemaError, match=message) as caught:
        parse_schema(text)
    said = str(caught.value)
    assert repr(text) in said
    assert f"at position {position}:" in said
    assert said.endswith(f"    {text}\n    {' ' * position}^")


def test_an_unknown_type_names_the_known_ones():
    with pytest.raises(
        SchemaError, match=r"boolean, byte, .*timestamp.*array<T>, map<K,V>, struct"
    ):
        parse_type("text")


def test_text_after_a_type_is_refused():
    with pytest.raises(SchemaError, match="'string' is not expected here"):
        parse_type("long string")


def test_the_pointer_is_right_in_a_text_of_several_lines():
    with pytest.raises(SchemaError) as caught:
        parse_schema("a int,\n\tb lng")
    line, pointer = str(caught.value).splitlines()[-2:]
    assert line[pointer.index("^") :] == "lng"


names = st.text(max_size=8)
simple = st.sampled_from(
    [
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.string(), pa.binary(), pa.date32(), UTC, pa.timestamp("us")),
    ]
)
decimals = st.integers(1, 38).flatmap(
    lambda p: st.builds(pa.decimal128, st.just(p), st.integers(0, p))
)


def fields_of(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    field = st.builds(pa.field, names, types, st.booleans())
    return st.lists(field, max_size=4, unique_by=lambda f: f.name)


types = st.recursive(
    simple | decimals,
    lambda inner: (
        st.builds(pa.list_, inner)
        | st.builds(pa.map_, inner, inner)
        | st.builds(pa.struct, fields_of(inner))
    ),
    max_leaves=8,
)


@given(types)
def test_a_written_type_is_read_back(data_type):
    assert parse_type(format_type(data_type)).equals(data_type, check_metadata=True)
    assert to_type(data_type).equals(data_type, check_metadata=True)


@given(fields_of(types).filter(bool))
def test_a_written_schema_is_read_back(fields):
    schema = pa.schema(fields)
    assert parse_schema(format_schema(schema)).equals(schema, check_metadata=True)
    assert to_schema(schema).equals(schema, check_metadata=True)


def test_types_are_written_in_the_words_of_spark():
    ddl = (
        "customer string, total long NOT NULL, tags map<string,array<decimal(10,2)>>, "
        "`a b` struct<x:int NOT NULL>"
    )
    assert format_schema(parse_schema(ddl)) == ddl


@pytest.mark.parametrize(
    ("given_type", "expected"),
    [
        (pa.large_string(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", tz="Europe/Paris"), UTC),
        (pa.decimal256(20, 3), pa.decimal128(20, 3)),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.int32(), 3), pa.list_(pa.int32())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int16())),
        (pa.struct([("a", pa.timestamp("ms"))]), pa.struct([("a", pa.timestamp("us"))])),
    ],
    ids=str,
)
def test_a_pyarrow_type_is_normalised(given_type, expected):
    assert to_type(given_type) == expected
    assert to_schema(pa.schema([("a", given_type)])) == pa.schema([("a", expected)])
    assert parse_type(format_type(given_type)) == expected


@pytest.mark.parametrize(
    "data_type", [pa.time64("us"), pa.duration("s"), pa.null(), pa.decimal256(50, 2)], ids=str
)
def test_a_pyarrow_type_that_spark_has_not_is_refused_by_name(data_type):
    with pytest.raises(SchemaError) as caught:
        to_type(pa.list_(data_type))
    assert str(data_type) in str(caught.value)


def test_metadata_is_dropped_and_nullability_kept():
    field = pa.field("a", pa.int64(), nullable=False, metadata={"k": "v"})
    schema = to_schema(pa.schema([field], metadata={"m": "n"}))
    assert schema.metadata is None
    assert schema.field("a").metadata is None
    assert not schema.field("a").nullable


class PysparkLike:
    """Has what Mainstay asks of a pyspark.sql.types object."""

    def __init__(self, json: object) -> None:
        self._json = json

    def jsonValue(self) -> object:  # noqa: N802
        return self._json


ORDER = PysparkLike(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
            {
                "name": "tags",
                "type": {"type": "array", "elementType": "string", "containsNull": True},
                "nullable": True,
                "metadata": {},
            },
            {
                "name": "counts",
                "type": {
                    "type": "map",
                    "keyType": "string",
                    "valueType": {"type": "struct", "fields": []},
                    "valueContainsNull": True,
                },
                "nullable": True,
                "metadata": {},
            },
        ],
    }
)


def test_a_pyspark_type_is_understood_by_its_json():
    ddl = "id long NOT NULL, price decimal(10,2), tags array<string>, counts map<string,struct<>>"
    assert to_schema(ORDER) == parse_schema(ddl)
    assert to_type(ORDER) == parse_type(f"struct<{ddl}>")
    assert to_type(PysparkLike("timestamp_ntz")) == pa.timestamp("us")


def test_a_pyspark_type_that_is_not_supported_is_named():
    with pytest.raises(SchemaError, match="'udt'"):
        to_type(PysparkLike({"type": "udt", "class": "x.Point"}))
    with pytest.raises(SchemaError, match="'variant' is not a type"):
        to_type(PysparkLike("variant"))


def test_a_repeated_name_in_a_pyspark_or_pyarrow_schema_is_refused():
    field = {"name": "a", "type": "long", "nullable": True}
    with pytest.raises(SchemaError, match="'a' occur more than once"):
        to_schema(PysparkLike({"type": "struct", "fields": [field, field]}))
    with pytest.raises(SchemaError, match="'a' occur more than once"):
        to_schema(pa.schema([("a", pa.int64()), ("a", pa.int64())]))


@pytest.mark.parametrize("declared", [5, None, int, PysparkLike])
def test_what_is_no_declaration_is_refused_with_the_ways_to_declare(declared):
    with pytest.raises(SchemaError, match="give a DDL string"):
        to_type(declared)
    with pytest.raises(SchemaError, match="give a DDL string"):
        to_schema(declared)


def test_a_schema_needs_named_columns():
    assert to_schema(pa.struct([("a", pa.int64())])) == pa.schema([("a", pa.int64())])
    for declared in (pa.int64(), PysparkLike("long")):
        with pytest.raises(SchemaError, match="needs named columns"):
            to_schema(declared)
