"""Handles of rows: they come back with their own metadata, and other versions are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mainstay.connectors.bases.row_handles import read_row_handle, write_row_handle
from mainstay.errors import SinkError

KEY = b"mainstay.example"


def test_rows_come_back_as_they_were_with_what_was_noted() -> None:
    rows = pa.table({"n": [1, 2]}).replace_schema_metadata({"origin": "elsewhere"})
    for compression in (None, "zstd"):
        data = write_row_handle(KEY, 1, ["out", 7], rows, compression=compression)
        about, found = read_row_handle(data, KEY, 1, "example")
        assert about == ["out", 7]
        assert found.equals(rows, check_metadata=True)


def test_rows_of_another_version_are_refused_with_a_remedy() -> None:
    data = write_row_handle(KEY, 2, [], pa.table({"n": [1]}))
    with pytest.raises(SinkError, match=r"an? example sink has version 2.*version 1\. Use the"):
        read_row_handle(data, KEY, 1, "example")
