"""A state file of format 3, whose rows append to rows of accumulators; written once, never again.

``python -m tests.golden.test_appended_accumulators_of_statefile_format_3`` wrote it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.statefile import StateFile, StateTable, encode_state_file, open_state_file
from mainstay.state.merge import merge
from mainstay.state.operations import APPEND, PUT
from mainstay.state.whole import to_whole

DATA = Path(__file__).parent / "data"
NAME = "statefile-v3.msty"
REF = FileRef(NAME, size_bytes=1808, checksum="crc32:967a6ad3")

ROW = pa.struct([("n", pa.int64()), ("items", pa.list_(pa.int64()))])
SCHEMA = pa.schema([("key", pa.string()), ("op", pa.int8()), ("value", ROW)])
ROWS = {
    "key": ["a", "b", "b"],
    "op": [APPEND, PUT, APPEND],
    "value": [{"n": 5, "items": [3, 4]}, {"n": 1, "items": []}, {"n": 2, "items": [9]}],
}
GROUPS = [3, 90, 90]


def golden() -> StateFile:
    return open_state_file(open_storage(str(DATA)), REF)


def test_format_3_is_still_understood() -> None:
    file = golden()
    file.verify()
    found = file.read("aggregates", 0, 127)
    assert found.table.equals(pa.table(ROWS, SCHEMA))
    assert found.groups.tolist() == GROUPS


def test_what_is_appended_in_format_3_is_still_added_to_what_was_there() -> None:
    older = {"key": ["a"], "op": [PUT], "value": [{"n": 2, "items": [1, 2]}]}
    before = StateTable("aggregates", pa.table(older, SCHEMA), np.array([3], np.uint16))
    parts = [before, golden().read("aggregates", 0, 127)]
    wanted = {"a": {"n": 5, "items": [1, 2, 3, 4]}, "b": {"n": 2, "items": [9]}}
    whole = to_whole(parts, "value")
    assert whole is not None
    assert {row["key"]: row["value"] for row in whole.table.to_pylist()} == wanted
    merged = merge(parts, to_base=False).table.to_pylist()
    assert {row["key"]: (row["op"], row["value"]) for row in merged} == {
        key: (PUT, value) for key, value in wanted.items()
    }


def test_what_only_appends_stays_so_until_it_is_a_base() -> None:
    (first, *_) = merge([golden().read("aggregates", 0, 63)], to_base=False).table.to_pylist()
    assert (first["key"], first["op"]) == ("a", APPEND)


def write() -> FileRef:
    rows = StateTable("aggregates", pa.table(ROWS, SCHEMA), np.array(GROUPS, np.uint16))
    file = encode_state_file([rows], is_base=False, max_parallelism=128, hash_id="mainstay-1")
    (DATA / NAME).write_bytes(file.data)
    return file.ref(NAME)


if __name__ == "__main__":
    print(write())
