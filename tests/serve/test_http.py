"""A job asked by real HTTP: what it answers, in JSON and Arrow, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.serve.jobs import API, running, start
from tests.unit.drive.test_embedded import HALF, KEYS, opened

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
READS = [
    "job",
    "graph",
    "tasks",
    "epochs",
    "attempts",
    "recoveries",
    "failures",
    "timeline",
    "output",
    "states",
    "key_groups/sums",
]


@pytest.mark.parametrize("path", READS)
def test_a_route_answers_for_a_running_job_and_for_a_directory(
    client: httpx.Client, offline: httpx.Client, path: str
) -> None:
    for each in (client, offline):
        found = each.get(f"{API}/{path}")
        assert found.status_code == 200, found.text
        assert found.headers["content-type"] == "application/json"


def test_the_page_says_where_the_job_is_and_hides_the_token_from_servers(job: Any) -> None:
    assert job.url.startswith("http://127.0.0.1:")
    assert "/#token=" in job.url


def test_a_job_without_a_page_has_no_address(tmp_path: Path) -> None:
    job = start(tmp_path, source=opened(), ui=None)
    assert job.url is None
    job.wait(60, progress=False)


# ---------------------------------------------------------------- figures


def test_busy_backpressured_and_idle_add_up_to_all_of_the_time(client: httpx.Client) -> None:
    tasks = client.get(f"{API}/tasks").json()["tasks"]
    subtasks = [each for task in tasks for each in task["subtasks"]]
    assert [len(task["subtasks"]) for task in tasks] == [2, 2]
    for each in subtasks:
        parts = [each["busy"], each["backpressured"], each["idle"]]
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(1.0)


def test_rows_are_counted_by_operator(client: httpx.Client) -> None:
    tasks = {each["task"]: each for each in client.get(f"{API}/tasks").json()["tasks"]}
    assert tasks["numbers"]["rows"] == tasks["sums"]["rows"] == HALF
    counts = [each for sub in tasks["sums"]["subtasks"] for each in sub["operators"]]
    assert {each["uid"] for each in counts} == {"sums", "out"}
    assert sum(each["rows_in"] for each in counts if each["uid"] == "out") == HALF
    assert client.get(f"{API}/job").json()["rows_in"] == HALF


def test_an_epoch_has_the_figures_of_its_subtasks(client: httpx.Client) -> None:
    epochs = client.get(f"{API}/epochs").json()
    last = [each for each in epochs if each["status"] == "complete"][-1]
    detail = client.get(f"{API}/epochs/{last['epoch']}").json()
    assert [(each["task"], each["subtask"]) for each in detail["subtasks"]] == [
        ("numbers", 0),
        ("numbers", 1),
        ("sums", 0),
        ("sums", 1),
    ]
    assert sum(each["size_bytes"] for each in detail["subtasks"]) == detail["size_bytes"]


def test_the_edges_of_the_graph_say_how_rows_go(client: httpx.Client) -> None:
    graph = client.get(f"{API}/graph").json()
    assert graph["edges"] == [
        {"from": "numbers", "to": "sums", "kind": "key", "side": ""},
        {"from": "sums", "to": "out", "kind": "forward", "side": ""},
    ]
    assert [each["operators"] for each in graph["tasks"]] == [["numbers"], ["sums", "out"]]


# ---------------------------------------------------------------- state


def test_several_states_are_asked_in_one_request(client: httpx.Client) -> None:
    asked = {"states": ["sums.total", "numbers.splits"], "limit": 2}
    answers = client.post(f"{API}/query", json=asked).json()["answers"]
    assert [each["state"] for each in answers] == asked["states"]
    assert [len(each["rows"]) for each in answers] == [2, 2]
    assert answers[0]["is_cut"]
    assert not answers[1]["is_cut"]


def test_rows_come_as_a_stream_of_arrow_batches(client: httpx.Client) -> None:
    found = client.post(f"{API}/query", json={"states": ["sums.total"]}, headers=ARROW)
    assert found.headers["content-type"] == ARROW["Accept"]
    assert found.headers["x-mainstay-cut"] == "false"
    table = pa.ipc.open_stream(found.content).read_all()
    assert sorted(table.column("k").to_pylist()) == list(range(KEYS))


def test_several_states_are_one_stream_after_the_other(client: httpx.Client) -> None:
    asked = {"states": ["sums.total", "numbers.splits"]}
    found = client.post(f"{API}/query", json=asked, headers=ARROW)
    source, told = pa.BufferReader(found.content), []
    for _ in asked["states"]:
        table = pa.ipc.open_stream(source).read_all()
        told.append(json.loads(table.schema.metadata[b"mainstay"]))
    assert source.tell() == len(found.content)
    assert [each["state"] for each in told] == asked["states"]
    assert len({each["moment"]["epoch"] for each in told}) == 1
    assert told[0]["columns"]["operator"] == "sums"


def test_a_statement_is_answered_in_both_forms(client: httpx.Client) -> None:
    pytest.importorskip("duckdb")
    asked = {"statement": "select k, k as k, total from sums.total order by 1 limit 2"}
    found = client.post(f"{API}/sql", json=asked).json()
    assert [row[:2] for row in found["rows"]] == [[0, 0], [1, 1]]
    assert not found["is_cut"]
    stream = client.post(f"{API}/sql", json=asked, headers=ARROW)
    assert pa.ipc.open_stream(stream.content).read_all().num_rows == 2


def test_live_state_is_answered_by_its_owners(client: httpx.Client) -> None:
    asked = {"states": ["sums.total"], "at": "live"}
    (around,) = client.post(f"{API}/query", json=asked).json()["answers"]
    assert around["moment"]["level"] == "live"
    keys = [row["k"] for row in around["rows"]]
    assert len(keys) == KEYS
    (some,) = client.post(f"{API}/query", json={**asked, "keys": keys[:2]}).json()["answers"]
    assert [row["k"] for row in some["rows"]] == keys[:2] or len(some["rows"]) == 2
    wrong = client.post(f"{API}/query", json={**asked, "states": ["sums.totl"]})
    assert (wrong.status_code, "sums.total" in wrong.json()["error"]) == (409, True)


def test_several_states_are_answered_at_one_epoch(client: httpx.Client) -> None:
    asked = {"states": ["sums.total", "sums.total"], "keys": [1]}
    found = client.post(f"{API}/query", json=asked).json()["answers"]
    assert len({each["moment"]["epoch"] for each in found}) == 1


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/nothing", None, 404, "not_found"),
        ("POST", "/job", None, 405, "bad_request"),
        ("GET", "/epochs/999999", None, 404, "not_found"),
        ("GET", "/epochs/one", None, 400, "bad_request"),
        ("GET", "/epochs?limit=-1", None, 400, "bad_request"),
        ("GET", "/key_groups/nobody", None, 404, "not_found"),
        ("GET", "/states?epoch=999999", None, 404, "not_found"),
        ("POST", "/query", {"states": []}, 400, "bad_request"),
        ("POST", "/query", {"states": ["sums.total"], "color": 1}, 400, "bad_request"),
        ("POST", "/query", {"states": ["sums.total"], "after": {"row": 3}}, 400, "bad_request"),
        ("POST", "/query", {"states": ["nobody.total"]}, 404, "not_found"),
        ("POST", "/query", {"states": ["sums.total"], "keys": ["x"]}, 400, "bad_request"),
        ("POST", "/sql", {"statement": "drop table sums.total"}, 400, "bad_request"),
        ("POST", "/savepoint", {"path": "here"}, 400, "bad_request"),
        ("POST", "/rescale", {"parallelism": 0}, 400, "bad_request"),
        ("POST", "/rescale", {"parallelism": 4096}, 400, "bad_request"),
    ],
)
def test_an_error_is_a_sentence_with_a_kind(
    client: httpx.Client, method: str, path: str, body: Any, status: int, kind: str
) -> None:
    found = client.request(method, f"{API}{path}", json=body)
    assert (found.status_code, found.json()["kind"]) == (status, kind), found.text
    assert set(found.json()) == {"error", "kind", "type"}
    assert len(found.json()["error"]) > 20


def test_a_body_that_is_no_json_is_said_to_be_none(client: httpx.Client) -> None:
    found = client.post(f"{API}/query", content=b"{", headers={"content-type": "application/json"})
    assert (found.status_code, found.json()["kind"]) == (400, "bad_request")


# ---------------------------------------------------------------- actions


def test_a_job_is_saved_rescaled_and_stopped_by_request(tmp_path: Path) -> None:
    with running(tmp_path / "snapshots") as (job, client):
        place = str(tmp_path / "saved")
        saved = client.post(f"{API}/savepoint", json={"path": place})
        assert (saved.status_code, saved.json()["is_done"]) == (200, True), saved.text
        assert (tmp_path / "saved" / "savepoint.json").is_file()
        again = client.post(f"{API}/savepoint", json={"path": place})
        assert (again.status_code, again.json()["kind"]) == (409, "conflict")

        rescaled = client.post(f"{API}/rescale", json={"parallelism": 1})
        assert rescaled.status_code == 200, rescaled.text
        assert client.get(f"{API}/job").json()["parallelism"] == job.parallelism == 1
        assert [each["kind"] for each in client.get(f"{API}/recoveries").json()] == ["rescale"]

        stopped = client.post(f"{API}/stop", json={})
        assert (stopped.status_code, stopped.json()["status"]) == (200, "stopped"), stopped.text
        kinds = [each["kind"] for each in client.get(f"{API}/timeline").json()]
        assert kinds.count("savepoint") == kinds.count("rescale") == kinds.count("end") == 1
        late = client.post(f"{API}/savepoint", json={"path": str(tmp_path / "late")})
        assert (late.status_code, late.json()["kind"]) == (409, "conflict")


def test_a_job_is_cancelled_by_request(tmp_path: Path) -> None:
    with running(tmp_path) as (job, client):
        found = client.post(f"{API}/cancel", json={})
        assert (found.status_code, found.json()["status"]) == (200, "cancelled")
        assert job.wait(10, progress=False) == "cancelled"
        assert client.post(f"{API}/cancel", json={}).status_code == 409


# ---------------------------------------------------------------- events


def events(lines: Any) -> Any:
    return (json.loads(line[6:]) for line in lines if line.startswith("data: "))


def test_events_tell_of_the_job_its_tasks_and_every_epoch(client: httpx.Client) -> None:
    with client.stream("GET", f"{API}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        found = events(stream.iter_lines())
        seen: set[int] = set()
        for _ in range(3):
            event = next(found)
            assert event["job"]["name"] == "numbers"
            assert len(event["tasks"]["tasks"]) == 2
            seen |= {each["epoch"] for each in event["epochs_since"]}
    assert seen == set(range(min(seen), max(seen) + 1))
