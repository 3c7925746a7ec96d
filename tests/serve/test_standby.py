"""Two drivers of one job: both serve, and each says what it is to the job."""

from __future__ import annotations

from pathlib import Path

import mainstay as ms
from tests.serve.jobs import API, await_true, client_of, start
from tests.unit.drive.test_embedded import Gated


def test_a_driver_on_standby_serves_and_takes_over(tmp_path: Path) -> None:
    ha = ms.HighAvailability(lease="1s")
    first = start(tmp_path, source=Gated(), ha=ha)
    await_true(lambda: first.status == "running" and first.snapshots(), "the first one leads")
    second = start(tmp_path, source=Gated(), ha=ha)
    with client_of(first.url) as leading, client_of(second.url) as waiting:
        await_true(lambda: second.status == "standby" and second.leader, "the second stands by")
        about = waiting.get(f"{API}/job").json()
        assert (about["status"], about["role"]) == ("standby", "standby")
        assert about["verdict"]["is_well"]
        assert "stands by" in about["verdict"]["headline"]
        assert waiting.get("/healthz").status_code == 200
        ready = waiting.get("/readyz")
        assert (ready.status_code, ready.json()["role"]) == (503, "standby")
        refused = waiting.post(f"{API}/rescale", json={"parallelism": 1})
        assert (refused.status_code, refused.json()["kind"]) == (409, "conflict")
        for path in ("graph", "tasks", "epochs", "attempts", "failures", "timeline", "states"):
            assert waiting.get(f"{API}/{path}").status_code == 200, path
        assert leading.get(f"{API}/job").json()["role"] == "leader"
        assert 'mainstay_leader{job="numbers"} 0.0' in waiting.get("/metrics").text
        first.post(first._leadership.leave)
        await_true(lambda: second.status == "running", "the second leads")
        await_true(lambda: waiting.get("/readyz").status_code == 200, "it is ready")
        assert [each["attempt"] for each in waiting.get(f"{API}/attempts").json()] == [1, 2]
    second.cancel()
    first.server.close()
    second.server.close()
