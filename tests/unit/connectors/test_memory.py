"""The memory sink: what it has committed stays readable, whoever wrote the handle."""

from __future__ import annotations

import json

import pyarrow as pa

from mainstay.connectors import Memory
from mainstay.schema.ipc import to_ipc


def test_a_handle_from_before_handles_had_a_version_is_committed_once() -> None:
    name = json.dumps(["job", "out", 1, 0, 7])
    batch = pa.record_batch({"n": [1, 2]}).replace_schema_metadata({"mainstay": name})
    sink = Memory()
    for _ in range(2):
        sink.commit_epoch(7, [to_ipc([batch], batch.schema)])
    assert sink.rows() == [(1,), (2,)]
