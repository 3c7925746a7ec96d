"""A state file of format 2, which says what was dropped; written once and never again.

``python -m tests.golden.test_dropped_panes_of_statefile_format_2`` wrote it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from mainstay.snapshot.drops import FIRST_PANE, Drop
from mainstay.snapshot.manifest import FileRef
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.statefile import StateFile, StateTable, encode_state_file, open_state_file
from mainstay.state.merge import merge

DATA = Path(__file__).parent / "data"
NAME = "statefile-v2.msty"
REF = FileRef(NAME, size_bytes=2196, checksum="crc32:47e22916")

SCHEMA = pa.schema(
    [("key", pa.string()), ("namespace", pa.int64()), ("op", pa.int8()), ("value", pa.int64())]
)
ROWS = {"key": ["a", "b"], "namespace": [30, 10], "op": [0, 0], "value": [7, 8]}
GROUPS = [3, 90]
DROPS = (Drop(FIRST_PANE, 10, 0, 127), Drop(20, 20, 64, 127))


def golden() -> StateFile:
    return open_state_file(open_storage(str(DATA)), REF)


def test_format_2_is_still_understood() -> None:
    file = golden()
    assert file.states == ("panes", "only_dropped")
    file.verify()
    found = file.read("panes", 0, 127)
    assert found.table.equals(pa.table(ROWS, SCHEMA))
    assert found.groups.tolist() == GROUPS
    assert found.drops == DROPS
    assert file.read("only_dropped", 0, 63).drops == (Drop(5, 6, 0, 63),)


def test_what_is_dropped_in_format_2_is_still_gone() -> None:
    older = {"key": ["a", "a", "b", "b"], "namespace": [10, 20, 10, 20]}
    rows = pa.table({**older, "op": [0] * 4, "value": [1, 2, 3, 4]}, SCHEMA)
    before = StateTable("panes", rows, np.array([3, 3, 90, 90], np.uint16))
    merged = merge([before, golden().read("panes", 0, 127)], to_base=True)
    found = [(row["key"], row["namespace"], row["value"]) for row in merged.table.to_pylist()]
    assert found == [("a", 20, 2), ("a", 30, 7), ("b", 10, 8)]


def write() -> FileRef:
    panes = StateTable("panes", pa.table(ROWS, SCHEMA), np.array(GROUPS, np.uint16), drops=DROPS)
    none = np.empty(0, np.uint16)
    drops = (Drop(5, 6, 0, 127),)
    only = StateTable("only_dropped", SCHEMA.empty_table(), none, drops=drops)
    file = encode_state_file(
        [panes, only], is_base=False, max_parallelism=128, hash_id="mainstay-1"
    )
    (DATA / NAME).write_bytes(file.data)
    return file.ref(NAME)


if __name__ == "__main__":
    print(write())
