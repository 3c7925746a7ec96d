"""Defects of the kind that round trips are for, planted: each must be found."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mainstay.connectors import FileSink
from mainstay.connectors.delta import writer
from mainstay.connectors.files import hive_partitions, part_formats
from mainstay.connectors.formats import json_reading, json_rows
from mainstay.connectors.postgres import writing
from tests.roundtrips import (
    kinds,
    test_delta,
    test_files,
    test_partitions,
    test_postgres,
    test_records,
)

pytestmark = pytest.mark.mutation
DOUBLES = kinds.one_column(pa.float64(), *kinds.EDGES[pa.float64()])
TEXTS = kinds.one_column(pa.string(), *kinds.TEXTS)


def test_a_writer_that_turns_minus_zero_into_zero_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = json_rows._float

    def rounded(value: float) -> Any:
        return sound(value) if value else 0.0

    monkeypatch.setattr(json_rows, "_float", rounded)
    with pytest.raises(AssertionError):
        test_files.check_written(DOUBLES, "json")
    with pytest.raises(AssertionError):
        test_records.check_json(DOUBLES)


def test_a_writer_that_alters_line_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = part_formats._csv

    def altered(table: pa.Table, is_first: bool) -> bytes:
        return sound(table, is_first).replace(b"\r\n", b"\n")

    monkeypatch.setattr(part_formats, "_csv", altered)
    with pytest.raises(AssertionError):
        test_files.check_written(TEXTS, "csv")


def test_a_reader_that_takes_nothing_for_the_empty_text_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = json_reading._converted

    def emptied(column: pa.Array, data_type: pa.DataType) -> pa.Array:
        found = sound(column, data_type)
        return found.fill_null("") if data_type == pa.string() else found

    monkeypatch.setattr(json_reading, "_converted", emptied)
    with pytest.raises(AssertionError):
        test_files.check_read(kinds.one_column(pa.string(), None, ""), "json", 0)


def test_a_file_that_says_another_partition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive_partitions, "_ESCAPED", re.compile("[/\0]"))
    with pytest.raises(AssertionError):
        test_partitions.check_folders(FileSink, test_partitions.by_text("a%41", "b"))


def test_a_delta_table_of_trimmed_texts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deltalake")
    sound = writer._encoded

    def trimmed(table: pa.Table, name: str) -> Any:
        texts = pc.utf8_trim_whitespace(table.column(0))
        return sound(table.set_column(0, table.schema.field(0), texts), name)

    monkeypatch.setattr(writer, "_encoded", trimmed)
    with pytest.raises(AssertionError):
        test_delta.check_written(kinds.one_column(pa.string(), " a ", "b"))


@pytest.mark.services
@pytest.mark.xdist_group("postgres")
def test_a_sink_that_takes_the_empty_text_for_nothing_is_found(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = writing.to_csv
    monkeypatch.setattr(writing, "to_csv", lambda batch: sound(batch).replace(b'""', b""))
    with pytest.raises(AssertionError):
        test_postgres.check_both_ways(dsn, kinds.one_column(pa.string(), "", "a"))
