"""The state of a job by its address: live and committed, types and errors as in its process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.errors import (
    BehindError,
    GraphError,
    MainstayError,
    QueryError,
    UnreachableError,
)
from mainstay.serve.server import Server
from mainstay.serve.stored import StoredView
from tests.control.running import PATIENCE_S, Shell
from tests.serve.jobs import API, client_of, running

SECRET = "x" * 20


# ---------------------------------------------------------------- a job that runs


def test_live_state_is_that_of_the_job_itself(job: Any) -> None:
    state = ms.connect(job.url)
    keys = [0, 1, 2]
    here, there = (
        job.query("sums.total", keys=keys),
        state.query("sums.total", keys=keys, at="live"),
    )
    assert there.values() == here.values()
    assert there.columns == here.columns
    assert (there.moment.level, there.moment.attempt) == ("live", 1)
    assert len(state.query("sums.total", at="live", limit=3).rows()) == 3
    some = state.query_states(["sums.total"], key=1, at="live")
    assert some["sums.total"].value == here.values()[1]


def test_what_is_committed_waits_for_what_was_written(job: Any) -> None:
    state = ms.connect(job.url)
    after = {"numbers": {"even": 300, "odd": 300}}
    answer = state.query("sums.total", key=1, after=after)
    assert answer.value == job.query("sums.total", key=1).value
    assert answer.moment.level == "committed"
    assert answer.moment.position["numbers"]["even"] >= 300
    assert state.query("sums.total", key=1, after=1, at="live").moment.level == "committed"
    asked = {"states": ["sums.total"], "keys": [1], "at": "live"}
    with client_of(job.url) as client:
        for when in ({"epoch": answer.epoch}, {"after": {"epoch": answer.epoch}}):
            said = client.post(f"{API}/query", json={**asked, **when}).json()
            assert said["answers"][0]["moment"]["level"] == "committed"
    with pytest.raises(BehindError, match="has come up to"):
        state.query("sums.total", key=1, after={"numbers": {"even": 10**6}}, timeout=0.1)


WRONG: list[dict[str, Any]] = [
    {"state": "sums.totl", "key": 1, "at": "live"},
    {"state": "sums.total", "at": "live"},
    {"state": "sums.total", "at": "live", "limit": 0},
    {"state": "sums.total", "key": "one", "at": "live"},
    {"state": "sums.total", "keys": "one", "at": "live"},
    {"state": "numbers.splits", "key": "one", "at": "live"},
]


@pytest.mark.parametrize("asked", WRONG, ids=repr)
def test_a_wrong_question_is_refused_in_the_same_words(job: Any, asked: dict[str, Any]) -> None:
    with pytest.raises(MainstayError) as here:
        job.query(**asked)
    with pytest.raises(type(here.value)) as there:
        ms.connect(job.url).query(**asked)
    assert str(there.value) == str(here.value)


def test_more_keys_than_a_request_takes_are_refused_with_the_remedy(job: Any) -> None:
    state = ms.connect(job.url)
    assert len(state.query("sums.total", keys=range(10_000)).rows()) == len(
        state.query("sums.total").rows()
    )
    with pytest.raises(GraphError, match="in parts"):
        state.query("sums.total", keys=range(10_001))
    with pytest.raises(GraphError, match="the request is wrong: states"):
        state.query_states(["sums.total"] * 33)


def test_a_connection_tells_how_the_job_is_doing_and_hides_the_token(job: Any) -> None:
    state: Any = ms.connect(job.url)
    assert (state.job()["name"], state.job()["status"]) == ("numbers", "running")
    token = job.url.partition("#token=")[2]
    assert token not in repr(state)


def test_an_address_that_is_wrong_is_said_to_be(job: Any) -> None:
    url, _, _ = job.url.partition("#")
    with pytest.raises(GraphError, match="has no token"):
        ms.connect(url)
    with pytest.raises(GraphError, match="no address of a job"):
        ms.connect("http://:x/#token=abc")
    with pytest.raises(QueryError, match="token") as refused:
        ms.connect(f"{url}#token={SECRET}").states()
    assert SECRET not in str(refused.value)
    with pytest.raises(UnreachableError, match="nothing answers at http"):
        ms.connect(f"http://127.0.0.1:9/#token={SECRET}").states()


def test_committed_state_goes_on_when_the_job_has_ended_and_live_state_does_not(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as (job, _):
        state = ms.connect(job.url)
        before = state.query("sums.total", key=1).value
        job.cancel()
        assert state.query("sums.total", key=1).value == before
        with pytest.raises(QueryError, match="at='committed'"):
            state.query("sums.total", key=1, at="live")


def test_a_job_that_was_killed_is_unreachable_and_its_snapshots_are_not(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.program("counting") as process:
        (entry,) = shell.entries()
        state = ms.connect(f"{entry['url']}#token={entry['token']}")
        both = state.query_states(["counts.seen", "counts.last"], keys=[0, 1, 2])
        assert set(both["counts.seen"].values()) == {0, 1, 2}
        assert both["counts.seen"].epoch == both["counts.last"].epoch
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        with pytest.raises(UnreachableError, match="snapshot directory"):
            state.query("counts.seen", key=1)
    assert ms.connect(entry["place"]).query("counts.seen", key=1).value > 0


# ---------------------------------------------------------------- types


class Kept(ms.KeyedProcess):
    """Keeps the row that it saw last, with everything in it."""

    row = ms.ValueState(
        "struct<t:timestamp,d:decimal(12,3),b:binary,l:array<string>,s:struct<x:int>>"
    )
    by_day = ms.MapState("date", "decimal(12,3)")

    def process(self, row: Any, ctx: Any) -> Any:
        self.row.update((row.t, row.d, row.b, ["a", None], (7,)))
        self.by_day.put(row.day or date(1970, 1, 1), row.d or Decimal("0.125"))
        yield (row.n,)


TIME = datetime(2026, 11, 17, 13, 5, 6, 789, tzinfo=timezone.utc)
ROWS = [
    (TIME, Decimal("12.500"), b"\x00\xff", date(2026, 11, 17), 1.5, True, 1, float("nan")),
    (None, None, None, None, None, None, 2, None),
]
COLUMNS = ("t", "d", "b", "day", "f", "flag", "n")
NOT_A_NUMBER = "g"
SCHEMA = (
    "t timestamp, d decimal(12,3), b binary, day date, f double, flag boolean, n long, g double"
)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ms.Connection]]:
    folder = tmp_path_factory.mktemp("typed")
    env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots(folder))
    rows = env.source(ms.connectors.Rows(SCHEMA, ROWS), uid="rows")
    for column in (*COLUMNS, NOT_A_NUMBER):
        keyed = rows.key_by(column).process(Kept(), "n long", uid=f"by_{column}")
        keyed.sink(ms.connectors.Memory(), uid=f"out_{column}")
    assert env.start("typed").wait(PATIENCE_S, progress=False) == "finished"
    server = Server(ms.Ui())
    server.show(StoredView(str(folder)))
    yield {"path": ms.connect(folder), "url": ms.connect(server.url)}
    server.close()


@pytest.mark.parametrize("column", COLUMNS)
def test_keys_and_values_of_any_type_come_back_as_they_are(
    typed: dict[str, ms.Connection], column: str
) -> None:
    keys = [row[COLUMNS.index(column)] for row in ROWS]
    for state in ("row", "by_day"):
        name = f"by_{column}.{state}"
        stored, over_http = typed["path"], typed["url"]
        for key in keys:
            expected = stored.query(name, key=key)
            assert expected.value is not None
            found = over_http.query(name, key=key)
            assert found.value == expected.value
            assert found.table == expected.table
        assert over_http.query(name, keys=keys).values() == stored.query(name).values()


def test_a_key_that_is_named_twice_has_one_row(typed: dict[str, ms.Connection]) -> None:
    nans = [float("nan"), float("-nan"), 1.5, 1.5, None, None]
    for state in typed.values():
        assert [row["f"] for row in state.query("by_f.row", keys=nans[2:]).rows()] == [1.5, None]
        found = [row["g"] for row in state.query("by_g.row", keys=nans).rows()]
        assert str(found) == "[nan, None]"


def test_a_key_that_is_missing_has_no_value(typed: dict[str, ms.Connection]) -> None:
    for state in typed.values():
        assert state.query("by_t.row", key=datetime(1999, 1, 1)).value is None
        assert state.query("by_b.row", key=b"nothing").value is None
        assert state.query("by_n.row", keys=[]).values() == {}
