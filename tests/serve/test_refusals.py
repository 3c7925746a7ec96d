"""Who is refused: without the token, by a wrong name, with too much, or for what is not there."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

import mainstay as ms
from mainstay.errors import GraphError
from mainstay.serve.security import MOST_BODY_BYTES, Names
from mainstay.serve.server import Server
from tests.serve.jobs import API, client_of, parts, start
from tests.unit.drive.test_embedded import opened

CLOSED = [
    *(f"{API}/{name}" for name in ("job", "epochs", "events", "tasks", "output")),
    *("/metrics", "/openapi.json", "/nothing"),
]


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize(
    "header",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic {}"}, {"X-Token": "{}"}],
)
def test_without_the_token_nothing_is_told(job: Any, path: str, header: dict[str, str]) -> None:
    address, token = parts(job.url)
    headers = {name: value.format(token) for name, value in header.items()}
    found = httpx.get(f"{address}{path}?token={token}", headers=headers)
    assert (found.status_code, found.json()["kind"]) == (401, "refused")
    assert found.headers["www-authenticate"] == "Bearer"
    assert "numbers" not in found.text


def test_a_wrong_token_is_said_to_be_wrong_and_a_missing_one_to_be_missing(job: Any) -> None:
    address, _ = parts(job.url)
    wrong = httpx.get(f"{address}{API}/job", headers={"Authorization": f"Bearer {'x' * 20}"}).json()
    missing = httpx.get(f"{address}{API}/job").json()
    assert wrong["error"].startswith("the token is not that of this job.")
    assert missing["error"].startswith("a token is needed.")
    for refused in (wrong, missing):
        assert set(refused) == {"error", "kind", "type"}


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_body_that_is_not_sent_as_json_is_refused_with_the_header_to_send(
    job: Any, kind: str | None
) -> None:
    with client_of(job.url) as client:
        headers = {} if kind is None else {"Content-Type": kind}
        body = b'{"states": ["sums.total"]}'
        found = client.post(f"{API}/query", content=body, headers=headers)
        assert found.status_code == 400
        assert "Send the header Content-Type: application/json" in found.json()["error"]
        as_json = {"Content-Type": "application/json; charset=utf-8"}
        assert client.post(f"{API}/query", content=body, headers=as_json).status_code == 200


@pytest.mark.parametrize("path", ["savepoint", "stop", "rescale", "cancel", "query", "sql"])
def test_without_the_token_nothing_is_done(job: Any, path: str) -> None:
    address, _ = parts(job.url)
    assert httpx.post(f"{address}{API}/{path}", json={}).status_code == 401
    assert job.status == "running"


def test_health_needs_no_token_and_the_page_holds_nothing_of_the_job(job: Any) -> None:
    address, token = parts(job.url)
    assert httpx.get(f"{address}/healthz").json() == {"status": "alive"}
    assert httpx.get(f"{address}/readyz").json()["role"] == "leader"
    page = httpx.get(f"{address}/")
    assert page.status_code == 200
    assert token not in page.text
    assert "numbers" not in page.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_that_was_not_told_is_refused(client: httpx.Client, host: str) -> None:
    for path in (f"{API}/job", "/"):
        found = client.get(path, headers={"Host": host})
        assert (found.status_code, found.json()["kind"]) == (403, "refused")
        assert "hosts" in found.json()["error"]


def test_names_are_those_that_were_bound_or_told() -> None:
    local = Names("127.0.0.1", ["jobs.lan"])
    assert all(map(local.allow, ["127.0.0.1:80", "localhost", "[::1]:8080", "JOBS.lan.:443"]))
    assert not any(map(local.allow, ["10.0.0.7", "evil.example", "", "localhost.evil.example"]))
    everywhere = Names("0.0.0.0", ["jobs.lan"])
    # Nobody can make the address of another machine the name of a site.
    assert all(map(everywhere.allow, ["10.0.0.7:80", "[fe80::1]:80", "localhost", "jobs.lan"]))
    assert not any(map(everywhere.allow, ["evil.example", "10.0.0.7.evil.example", ""]))


def test_a_body_that_is_too_large_is_refused(client: httpx.Client) -> None:
    large = {"statement": "x" * MOST_BODY_BYTES}
    found = client.post(f"{API}/sql", json=large)
    assert (found.status_code, found.json()["kind"]) == (413, "refused")


def test_so_is_one_that_does_not_say_how_large_it_is(client: httpx.Client) -> None:
    pieces = (b"x" * 65536 for _ in range(2 + MOST_BODY_BYTES // 65536))
    found = client.post(f"{API}/sql", content=pieces)
    assert found.status_code == 413


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/%2e%2e/serve/app.py",
        "/page//etc/passwd",
        "/page/__init__.py",
        f"{API}/key_groups/..%2f..%2flog",
        f"{API}/epochs/..%2f..%2f..%2fetc",
    ],
)
def test_no_path_leads_out_of_what_is_served(client: httpx.Client, path: str) -> None:
    found = client.get(path)
    assert found.status_code in (400, 404)
    assert "import" not in found.text
    assert "root:" not in found.text


@pytest.mark.parametrize(
    "statement",
    [
        "select 1; copy (select 1) to '{path}'",
        "copy (select * from sums.total) to '{path}'",
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "attach '{path}' as stolen",
        "set enable_external_access = true",
        "install httpfs",
        "pragma database_list",
    ],
)
def test_sql_reads_states_and_nothing_else(
    client: httpx.Client, tmp_path: Path, statement: str
) -> None:
    pytest.importorskip("duckdb")
    target = tmp_path / "stolen"
    found = client.post(f"{API}/sql", json={"statement": statement.format(path=target)})
    assert (found.status_code, found.json()["kind"]) == (400, "bad_request"), found.text
    assert not target.exists()
    assert "root:" not in found.text


def test_answers_carry_what_browsers_keep_to_and_allow_no_other_site(client: httpx.Client) -> None:
    found = client.get(f"{API}/job", headers={"Origin": "http://evil.example"})
    assert found.headers["content-security-policy"].startswith("default-src 'self'")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in found.headers)


# ---------------------------------------------------------------- settings


def test_a_token_that_is_given_is_the_one_that_counts(tmp_path: Path) -> None:
    token = "a-token-of-mine-for-this-job"
    job = start(tmp_path, source=opened(), ui=ms.Ui(token=token))
    address, shown = parts(job.url)
    assert shown == token
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{address}{API}/job", headers=headers).status_code == 200
    assert token not in repr(ms.Ui(token=token))
    job.wait(60, progress=False)
    job.server.close()


def test_a_port_that_is_taken_is_an_error_before_anything_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(GraphError, match=r"cannot be used.*another port"):
            start(tmp_path / "job", ui=ms.Ui(port=taken.getsockname()[1]))
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"host": ""}, "must be an address"),
        ({"port": "80"}, "must be a number"),
        ({"port": 70000}, "between 0 and 65535"),
        ({"token": "short"}, "at least 16"),
        ({"token": "with a space in the middle"}, "without spaces"),
        ({"hosts": "jobs.lan"}, "must be a list"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        ms.Ui(**settings)


def test_what_is_no_page_is_refused() -> None:
    with pytest.raises(GraphError, match="must be True, a Ui or None"):
        ms.Environment(ui="yes")  # type: ignore[arg-type]
    assert ms.Environment(ui=False).ui is None


def test_the_address_of_a_page_is_one_that_a_browser_can_open() -> None:
    for ui, host in [
        (ms.Ui(host="0.0.0.0"), "127.0.0.1"),
        (ms.Ui(host="0.0.0.0", hosts=["jobs.lan"]), "jobs.lan"),
    ]:
        server = Server(ui)
        assert server.url.startswith(f"http://{host}:{server.port}/#token=")
        server.close()
