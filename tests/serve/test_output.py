"""What functions print, over HTTP: the newest lines, with the operator that was at work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.serve.jobs import API, client_of, start
from tests.unit.drive.test_embedded import Sum, opened


class Talking(Sum):
    def process(self, row: Any, ctx: Any) -> Any:
        print(f"row {row.n}")
        return super().process(row, ctx)


def test_the_newest_lines_are_told_and_how_many_are_not(tmp_path: Path) -> None:
    job = start(tmp_path, source=opened(), function=Talking())
    assert job.wait(60, progress=False) == "finished"
    with client_of(job.url) as client:
        found = client.get(f"{API}/output?limit=100").json()
        none = client.get(f"{API}/output?attempt=7").json()
        refused = client.get(f"{API}/output?limit=100000")
    job.server.close()
    assert len(found["lines"]) == 100
    assert found["left_out"] == 500
    last = found["lines"][-1]
    assert (last["attempt"], last["operator"], last["stream"]) == (1, "sums", "stdout")
    assert last["subtask"] == last["worker"]
    assert last["text"].startswith("row ")
    assert none == {"lines": [], "left_out": 0}
    assert refused.status_code == 422 or refused.json()["kind"] == "bad_request"
