"""A state file of format 1, written once. Every version of Mainstay must read it as this does.

The file is never written anew: a version that cannot read it breaks every stored snapshot.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.statefile import StateFile, open_state_file

DATA = Path(__file__).parent / "data"
REF = FileRef("statefile-v1.msty", size_bytes=4509, checksum="crc32:2a61b99a")

TOTALS_SCHEMA = pa.schema(
    [
        pa.field("op", pa.uint8(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.int64()),
    ]
)
TOTALS = {
    "op": [0, 1, 0, 0, 0],
    "key": ["to", "be", "or", "or", "größe"],
    "value": [7, None, 1, 2, -(2**63)],
}
TOTAL_GROUPS = [0, 5, 64, 64, 127]

DETAILS_SCHEMA = pa.schema(
    [
        pa.field("key", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        pa.field("value", pa.map_(pa.string(), pa.list_(pa.decimal128(10, 2)))),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("raw", pa.binary()),
    ]
)
DETAILS: dict[str, list[Any]] = {
    "key": [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None],
    "value": [[("p", [Decimal("1.50"), None]), ("q", [])], [], None],
    "at": [0, 1_600_000_000_000_000, None],
    "raw": [b"\x00\xff", b"", None],
}
DETAIL_GROUPS = [3, 3, 90]


def golden() -> StateFile:
    return open_state_file(open_storage(str(DATA)), REF)


def test_format_1_is_still_understood() -> None:
    file = golden()
    assert file.states == ("totals", "details", "empty")
    assert file.is_base is True
    assert file.max_parallelism == 128
    assert file.hash_id == "golden-1"
    file.verify()


def test_plain_rows_of_format_1_are_still_read() -> None:
    found = golden().read("totals", 0, 127)
    assert found.table.equals(pa.table(TOTALS, TOTALS_SCHEMA))
    assert found.groups.tolist() == TOTAL_GROUPS


def test_nested_rows_of_format_1_are_still_read() -> None:
    found = golden().read("details", 0, 127)
    assert found.table.equals(pa.table(DETAILS, DETAILS_SCHEMA))
    assert found.groups.tolist() == DETAIL_GROUPS


def test_an_empty_state_of_format_1_is_still_read() -> None:
    found = golden().read("empty", 0, 127)
    assert found.table.equals(TOTALS_SCHEMA.empty_table())


def test_ranges_of_format_1_are_still_found() -> None:
    file = golden()
    assert file.read("totals", 5, 64).table.num_rows == 3
    assert file.read("totals", 64, 100).table.column("value").to_pylist() == [1, 2]
