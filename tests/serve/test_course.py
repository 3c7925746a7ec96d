"""A job that fails, restarts, finishes or is dropped: what is told is right each time."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import mainstay as ms
from mainstay.serve.server import Server
from mainstay.serve.stored import StoredView
from tests.serve.jobs import API, PATIENCE_S, await_true, client_of, running, shown, start
from tests.unit.drive.test_embedded import Gated, Sum, opened

_raised = threading.Event()
_is_stuck = threading.Event()
_may_go_on = threading.Event()


class FailingOnce(Sum):
    """Raises for a row of the second half, the first time it comes."""

    def process(self, row: Any, ctx: Any) -> Any:
        if row.n == 400 and not _raised.is_set():
            _raised.set()
            raise ValueError("row 400 is not to our taste")
        return super().process(row, ctx)


class Failing(Sum):
    def process(self, row: Any, ctx: Any) -> Any:
        if row.n == 400:
            raise ValueError("row 400 is not to our taste")
        return super().process(row, ctx)


class Stuck(Sum):
    """Waits in the middle of a row until it may go on."""

    def process(self, row: Any, ctx: Any) -> Any:
        if row.n == 400:
            _is_stuck.set()
            _may_go_on.wait(60)
        return super().process(row, ctx)


@pytest.fixture(autouse=True)
def events() -> Any:
    _raised.clear()
    _is_stuck.clear()
    _may_go_on.clear()
    yield
    _may_go_on.set()


def get(client: httpx.Client, path: str) -> Any:
    return client.get(f"{API}/{path}").json()


def test_a_job_that_finishes_is_well_and_not_ready(tmp_path: Path) -> None:
    job = start(tmp_path, source=opened())
    assert job.wait(60, progress=False) == "finished"
    with client_of(job.url) as client:
        about = get(client, "job")
        assert (about["status"], about["rows_in"]) == ("finished", 600)
        assert (about["rows_in_per_s"], about["rows_out_per_s"]) == (0.0, 0.0)
        assert about["verdict"]["is_well"]
        assert about["verdict"]["headline"].startswith("The job has finished at epoch")
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["reason"]) == (503, "The job is finished.")
        assert client.get("/healthz").status_code == 200
        assert get(client, "attempts")[-1]["ended_at"] is not None
        assert get(client, "timeline")[-1]["kind"] == "end"
    job.server.close()


def test_a_job_that_restarts_tells_why_and_is_well_again(tmp_path: Path) -> None:
    source = Gated()
    restart = ms.Restart(max_failures=3, backoff="1ms")
    with running(tmp_path, source=source, function=FailingOnce(), restart=restart) as (job, client):
        source.open_gate()
        assert job.wait(60, progress=False) == "finished"
        assert get(client, "job")["attempt"] == 2
        failure = get(client, "failures")[0]
        assert (failure["operator"], failure["outcome"]) == ("sums", "restarted")
        assert "row 400 is not to our taste" in failure["cause"]
        assert "raise ValueError" in failure["traceback"]
        recovery = get(client, "recoveries")[0]
        assert (recovery["attempt"], recovery["kind"]) == (2, "failure")
        first, second = get(client, "attempts")
        assert second["restored_from"] == int(second["origin"].removeprefix("epoch "))
        assert first["ended_at"] <= second["begun_at"]
        kinds = [each["kind"] for each in get(client, "timeline")]
        assert kinds.count("attempt") == 2
        assert kinds.index("failure") < len(kinds) - 1
        metrics = client.get("/metrics").text
        assert 'mainstay_failures_total{job="numbers",outcome="restarted"} 1.0' in metrics


def test_while_a_job_waits_for_its_restart_it_says_so(tmp_path: Path) -> None:
    source = Gated()
    restart = ms.Restart(max_failures=3, backoff="1h", max_backoff="1h")
    with running(tmp_path, source=source, function=FailingOnce(), restart=restart) as (job, client):
        source.open_gate()
        await_true(lambda: job.status == "restarting", "the job restarts")
        verdict = get(client, "job")["verdict"]
        assert not verdict["is_well"]
        assert verdict["headline"].startswith("The job is restarting at epoch")
        assert "row 400 is not to our taste" in verdict["because"][0]
        assert client.get("/readyz").json()["reason"] == "The job is restarting."
        assert all(each["rows_per_s"] == 0 for each in get(client, "tasks")["tasks"])


def test_a_job_that_failed_says_why_and_so_does_its_directory(tmp_path: Path) -> None:
    source = Gated()
    with running(tmp_path, source=source, function=Failing()) as (job, client):
        source.open_gate()
        await_true(lambda: job.status == "failed", "the job fails")
        await_true(lambda: not job._thread.is_alive(), "its drive ends")
        with shown(tmp_path) as offline:
            for each in (client, offline):
                about = get(each, "job")
                assert about["status"] == "failed"
                assert not about["verdict"]["is_well"]
                assert "row 400" in about["verdict"]["because"][0]
                assert "restore='latest'" in about["verdict"]["remedy"]
                assert get(each, "failures")[-1]["outcome"] == "given up"
                end = get(each, "timeline")[-1]
                assert (end["kind"], "row 400" in end["text"]) == ("end", True)
                state = each.post(f"{API}/query", json={"states": ["sums.total"], "keys": [3]})
                assert len(state.json()["answers"][0]["rows"]) == 1


def test_an_action_that_takes_too_long_is_accepted_and_goes_on(tmp_path: Path) -> None:
    source = Gated()
    with running(tmp_path, source=source, function=Stuck()) as (job, client):
        source.open_gate()
        assert _is_stuck.wait(60)
        found = client.post(f"{API}/cancel", json={"timeout_s": 0.2})
        assert found.status_code == 202, found.text
        assert not found.json()["is_done"]
        _may_go_on.set()
        assert job.wait(60, progress=False) == "cancelled"


def test_a_savepoint_that_takes_too_long_is_under_way(tmp_path: Path) -> None:
    source = Gated()
    with running(tmp_path / "snapshots", source=source, function=Stuck()) as (_, client):
        source.open_gate()
        assert _is_stuck.wait(60)
        place = str(tmp_path / "saved")
        found = client.post(f"{API}/savepoint", json={"path": place, "timeout_s": 0.2})
        assert (found.status_code, found.json()["is_done"]) == (202, False)
        _may_go_on.set()


def test_a_job_that_goes_on_where_it_was_knows_what_was_before(tmp_path: Path) -> None:
    with running(tmp_path) as (job, _):
        job.stop()
    with running(tmp_path, restore="latest") as (_, client):
        about = get(client, "job")
        assert about["attempt"] == 2
        assert [each["attempt"] for each in get(client, "attempts")] == [1, 2]
        assert [each["kind"] for each in get(client, "timeline")].count("leader") == 2


# ---------------------------------------------------------------- its own end


def test_the_server_ends_with_the_handle_that_nobody_has_any_more(tmp_path: Path) -> None:
    job = start(tmp_path, source=opened())
    job.wait(60, progress=False)
    url, thread = job.url, job.server._thread
    with client_of(url) as client:
        assert client.get("/healthz").status_code == 200
    del job
    await_true(lambda: gc.collect() is not None and not thread.is_alive(), "the server ends")
    with client_of(url) as client, pytest.raises(httpx.ConnectError):
        client.get("/healthz")


def test_who_listens_is_told_of_the_end_and_nothing_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = start(tmp_path)
    with client_of(job.url) as client, client.stream("GET", f"{API}/events") as listening:
        lines = listening.iter_lines()
        assert next(lines) == "event: state"
        job.server.close()
        assert not job.server._thread.is_alive()
        assert list(lines)[-1] == ""
    assert [each.name for each in caplog.records if each.name.startswith("uvicorn")] == []
    job.cancel()


PROGRAM = """
import httpx, sys
from pathlib import Path
from tests.serve.jobs import start, client_of
job = start(Path(sys.argv[1]))
with client_of(job.url) as client:
    assert client.get("/api/v1/job").status_code == 200
    listening = client.stream("GET", "/api/v1/events")
    listening.__enter__()
    job.cancel()
    print("done", flush=True)
"""


def test_a_program_ends_although_it_is_being_watched(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert "Traceback" not in ran.stderr


def test_nothing_of_it_is_imported_unless_it_is_asked_for() -> None:
    program = (
        "import sys, mainstay as ms; ms.Environment(); "
        "print([n for n in ('fastapi', 'uvicorn', 'pydantic', 'starlette', 'prometheus_client', "
        "'mainstay.serve') if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "[]", ran.stderr


def test_a_graph_that_cannot_be_read_leaves_the_operators_that_have_stored_something(
    tmp_path: Path,
) -> None:
    assert start(tmp_path, source=opened(), ui=None).wait(60, progress=False) == "finished"
    for path in (tmp_path / "graphs").iterdir():
        path.write_bytes(b"{}")
    with shown(tmp_path) as client:
        graph = client.get(f"{API}/graph").json()
    assert graph["edges"] == []
    assert {each["uid"] for each in graph["operators"]} == {"numbers", "sums", "out"}


def test_who_still_waits_when_the_process_ends_is_told_so_and_no_traceback_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("duckdb")
    with running(tmp_path):
        server = Server(ms.Ui())
        server.show(StoredView(str(tmp_path)))
        endless = "select sum(a.range * b.range) from range(100000000) a, range(100000000) b"
        asked = {"statement": endless, "timeout_s": 5}
        with client_of(server.url) as client, ThreadPoolExecutor(1) as beside:
            answer = beside.submit(client.post, f"{API}/sql", json=asked)
            await_true(lambda: bool(server._under_way), "the statement is being run")
            server.close()
            found = answer.result(PATIENCE_S)
    assert found.status_code == 503
    assert found.json()["type"] == "UnreachableError"
    assert "Exception in ASGI application" not in caplog.text
