"""How far a Flink job is, asked over its REST interface."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def _ask(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
        return json.load(reply)


def records_read(port: int, job: str) -> int:
    """Records that all sources of the job have emitted; 0 while there is no word of it yet.

    Buffers after the source are full once the job is warm, so this grows as the sink's count does.
    """
    try:
        vertices = _ask(port, f"/jobs/{job}")["vertices"]
        return sum(_source_records(port, job, vertex["id"]) for vertex in vertices)
    except OSError:
        return 0  # the cluster is starting or too busy to answer: it is asked again


def _source_records(port: int, job: str, vertex: str) -> int:
    base = f"/jobs/{job}/vertices/{vertex}/subtasks/metrics"
    names = [metric["id"] for metric in _ask(port, base)]
    wanted = [n for n in names if n.startswith("Source__") and n.endswith(".numRecordsOut")]
    if not wanted:
        return 0
    found = _ask(port, f"{base}?get={wanted[0]}&agg=sum")
    return int(sum(metric["sum"] for metric in found))
