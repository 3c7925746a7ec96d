"""A state with queryable=False is told to nobody by the running job, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import mainstay as ms
from mainstay.errors import GraphError, QueryError, SqlError
from mainstay.plan.planning import plan_of
from tests.serve.jobs import API, await_true, client_of
from tests.unit.drive.test_embedded import Gated

ALLOW = "Leave queryable=False out"


class Account(ms.KeyedProcess):
    total = ms.ValueState("long")
    secret = ms.ValueState("long", queryable=False)

    def process(self, row: Any, ctx: Any) -> Any:
        self.total.update(row.n)
        self.secret.update(row.n)
        yield ctx.key, row.n


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("queryable")


@pytest.fixture(scope="module")
def job(place: Path) -> Iterator[Any]:
    env = ms.Environment(
        spark="embedded", parallelism=2, snapshots=ms.Snapshots(place, every="50ms"), ui=True
    )
    keyed = env.source(Gated(), uid="numbers").key_by("k")
    accounts = keyed.process(Account(), "k long, n long", uid="accounts")
    accounts.sink(ms.connectors.Memory(), uid="out")
    sums = keyed.aggregate(total=ms.sum("n"), uid="sums", queryable=False)
    sums.sink(ms.connectors.Memory(), uid="other")
    job: Any = env.start("accounts")
    await_true(lambda: has_rows(place), "rows are committed")
    yield job
    job.cancel()
    job.server.close()


def has_rows(place: Path) -> bool:
    try:
        return ms.connect(place).query("accounts.secret", limit=1).rows() != []
    except ms.errors.MainstayError:
        return False  # there is no epoch yet


@pytest.fixture(scope="module")
def client(job: Any) -> Iterator[httpx.Client]:
    with client_of(job.url) as client:
        yield client


HIDDEN = ["accounts.secret", "sums.aggregates"]


@pytest.mark.parametrize("state", HIDDEN)
@pytest.mark.parametrize("at", ["live", "committed"])
def test_a_query_of_the_job_is_refused_with_what_allows_it(job: Any, state: str, at: str) -> None:
    with pytest.raises(QueryError, match=ALLOW):
        job.query(state, key=1, at=at)


@pytest.mark.parametrize("state", HIDDEN)
@pytest.mark.parametrize("at", ["live", "committed"])
def test_a_query_over_http_is_refused(client: httpx.Client, state: str, at: str) -> None:
    for asked in ({"keys": [1]}, {}):
        found = client.post(f"{API}/query", json={"states": [state], "at": at, **asked})
        assert found.status_code == 409, found.text
        assert ALLOW in found.json()["error"]


def test_sql_knows_nothing_of_it(job: Any, client: httpx.Client) -> None:
    statement = "select * from accounts.secret"
    with pytest.raises(SqlError, match=rf"accounts\.secret: queryable=False\. {ALLOW}"):
        job.sql(statement)
    found = client.post(f"{API}/sql", json={"statement": statement})
    assert found.status_code == 400
    assert ALLOW in found.json()["error"]
    tables = "select table_name from information_schema.tables where table_name like '%secret%'"
    assert job.sql(tables).num_rows == 0


def test_it_is_not_among_the_states(client: httpx.Client) -> None:
    names = {each["name"] for each in client.get(f"{API}/states").json()}
    assert "accounts.total" in names
    assert names.isdisjoint(HIDDEN)


def test_the_other_states_are_answered(job: Any, client: httpx.Client) -> None:
    assert job.query("accounts.total", key=1).value is not None
    assert job.sql("select count(*) as n from accounts.total").to_pylist()[0]["n"] > 0
    asked = {"states": ["accounts.total"], "keys": [1]}
    assert client.post(f"{API}/query", json=asked).json()["answers"][0]["rows"]


def test_who_may_read_the_files_may_read_it(job: Any, place: Path) -> None:
    assert ms.connect(place).query("accounts.secret", key=1).value is not None


def test_every_operator_with_a_key_can_be_hidden() -> None:
    env = ms.Environment(spark="embedded", parallelism=1)
    keyed = env.source(ms.connectors.Rows("k long, n long", [(1, 2)]), uid="in").key_by("k")
    streams = [
        keyed.reduce(lambda a, b: a, uid="reduce", queryable=False),
        keyed.reduce(max, uid="max", queryable=False),
        keyed.process(Account(), "k long, n long", uid="process", queryable=False),
    ]
    for number, stream in enumerate(streams):
        stream.sink(ms.connectors.Memory(), uid=f"out {number}")
    states = [
        info
        for _, operator in plan_of(env.graph()).operators()
        if operator.key is not None
        for info in operator.states
    ]
    assert len(states) >= 4
    assert not any(info.queryable for info in states)
    with pytest.raises(GraphError, match="queryable=1 must be True or False"):
        keyed.aggregate(n=ms.count(), uid="counts", queryable=1)  # type: ignore[arg-type]
