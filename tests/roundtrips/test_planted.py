"""Defects of the kind that round trips are for, planted: each must be found."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mainstay.connectors.files import part_formats
from mainstay.connectors.formats import json_reading, json_rows
from tests.roundtrips import kinds, test_files, test_records

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
