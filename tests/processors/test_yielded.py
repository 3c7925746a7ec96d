"""What processors yield within structs, arrays and maps is taken as Spark takes it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row

from mainstay.errors import SchemaError
from mainstay.schema import to_schema
from mainstay.spark.processors.frames import FrameWriter
from mainstay.spark.processors.row_values import RowWriter
from mainstay.spark.processors.settings import ValueSettings

UTC, TOKYO = ValueSettings(), ValueSettings("Asia/Tokyo")
NINE = datetime(2026, 1, 1, 9)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def in_rows(value: Any, ddl: str, settings: ValueSettings) -> Any:
    (batch,) = RowWriter(to_schema(ddl), "f", settings).batches([Row(x=value)])
    return batch["x"].to_pylist()[0]


def in_frames(value: Any, ddl: str, settings: ValueSettings) -> Any:
    column = pd.Series([value], dtype=object)
    frame = pd.DataFrame({"x": column})
    (batch,) = FrameWriter(to_schema(ddl), "f", settings).batches([frame])
    return batch["x"].to_pylist()[0]


WAYS = pytest.mark.parametrize("way", [in_rows, in_frames])


@WAYS
@pytest.mark.parametrize(
    ("value", "a", "b"),
    [
        ({"a": 1}, 1, None),
        ({"b": "x", "more": 2}, None, "x"),
        ({}, None, None),
        (Row(b="x", a=1), 1, "x"),
        (Row(b="x"), None, "x"),
        (Row(b="x", more=1, a=2), 2, "x"),
        ((1, "x"), 1, "x"),
    ],
)
def test_a_struct_is_taken_by_the_names_of_its_fields(way: Any, value: Any, a: Any, b: Any) -> None:
    struct = "struct<a:int,b:string>"
    made = {"a": a, "b": b}
    assert way(value, f"x {struct}", UTC) == made
    assert way([value, None], f"x array<{struct}>", UTC) == [made, None]
    assert way({"k": value}, f"x map<string,{struct}>", UTC) == [("k", made)]
    assert way({"s": value}, f"x struct<s:{struct}>", UTC) == {"s": made}


@WAYS
def test_nothing_is_null_that_is_declared_not_to_be(way: Any) -> None:
    with pytest.raises(SchemaError, match="declared NOT NULL"):
        way({"b": 1}, "x struct<a:int NOT NULL,b:int>", UTC)


@WAYS
@pytest.mark.parametrize(
    ("value", "ddl"),
    [
        (5, "x struct<a:int,b:int>"),
        ((1, 2), "x struct<a:int>"),
        ("text", "x array<struct<a:int>>"),
        ([1], "x map<string,struct<a:int>>"),
        ({"a": "text"}, "x struct<a:int>"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_column(way: Any, value: Any, ddl: str) -> None:
    with pytest.raises(SchemaError, match="operator 'f', column 'x'"):
        way(value, ddl, UTC)


@WAYS
def test_a_time_without_a_zone_is_in_that_of_the_session_however_deep(way: Any) -> None:
    assert way(NINE, "x timestamp", TOKYO) == MIDNIGHT
    assert way([NINE], "x array<timestamp>", TOKYO) == [MIDNIGHT]
    assert way({"at": NINE}, "x struct<at:timestamp>", TOKYO) == {"at": MIDNIGHT}
    assert way({NINE: NINE}, "x map<timestamp,timestamp>", TOKYO) == [(MIDNIGHT, MIDNIGHT)]
    assert way([[NINE]], "x array<array<timestamp>>", TOKYO) == [[MIDNIGHT]]
    assert way([NINE], "x array<timestamp_ntz>", TOKYO) == [NINE]
    assert way([MIDNIGHT], "x array<timestamp>", TOKYO) == [MIDNIGHT]


def test_spark_takes_structs_in_rows_the_same_way() -> None:
    """By what PySpark's worker does with a row."""
    schema = to_schema("x struct<a:int,b:string>")
    for value in ({"a": 1}, {"b": "x", "more": 2}, {}, Row(b="x", a=1), Row(b="x", more=1, a=2)):
        row = Row(x=value).asDict(recursive=True)
        (theirs,) = pa.RecordBatch.from_pylist([row], schema=schema)["x"].to_pylist()
        assert in_rows(value, "x struct<a:int,b:string>", UTC) == theirs
