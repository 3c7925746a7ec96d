"""``mainstay query`` and ``mainstay sql``: what they say of a real directory."""

from __future__ import annotations

import importlib.util
import json
import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay import cli
from tests.spark.states import numbers_by_key, stopped_half_way

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("typer") is None, reason="the command is an extra"
)
BY_KEY = numbers_by_key()
KEY = '{"customer": "c1", "region": "1"}'


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("asked")
    stopped_half_way(folder)
    return str(folder / "snapshots")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("COLUMNS", "200")

    def called(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["mainstay", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out = capsys.readouterr().out
        return out if ended.value.code in (0, None) else f"error: {ended.value.code}"

    return called


def test_the_states_are_listed_where_none_is_named(call: Any, snapshots: str) -> None:
    said = call("query", snapshots)
    assert "all.total" in said
    assert "struct<customer:string,region:int>" in said
    listed = json.loads(call("query", snapshots, "--json"))
    assert "all.parities" in {each["state"] for each in listed}


def test_a_key_is_looked_up(call: Any, snapshots: str) -> None:
    total = sum(BY_KEY["c1", 1])
    assert str(total) in call("query", snapshots, "all.total", "--key", KEY)
    answer = json.loads(call("query", snapshots, "all.total", "--key", KEY, "--json"))
    assert [row["total"] for row in answer["rows"]] == [total]
    assert answer["job"] == "everything"
    both = call("query", snapshots, "sums.aggregates", "--key", "c1", "--key", "c2", "--json")
    assert {row["customer"] for row in json.loads(both)["rows"]} == {"c1", "c2"}


def test_some_rows_are_shown_where_no_key_is_given(call: Any, snapshots: str) -> None:
    answer = json.loads(call("query", snapshots, "all.total", "--limit", "2", "--json"))
    assert len(answer["rows"]) == 2
    assert "2 rows in" in call("query", snapshots, "all.total", "--limit", "2")


def test_wrong_keys_states_and_epochs_are_said_in_a_line(call: Any, snapshots: str) -> None:
    assert "Did you mean 'all.total'" in call("query", snapshots, "all.totl", "--key", "x")
    assert "JSON object" in call("query", snapshots, "all.total", "--key", "c1")
    wrong = '{"customer": "c1", "region": "one"}'
    assert "'one' is no int," in call("query", snapshots, "all.total", "--key", wrong)
    assert "error: mainstay: " in call("query", snapshots, "all.total", "--epoch", "999")
    assert "error: mainstay: " in call("query", str(Path(snapshots) / "nowhere"))


def test_a_statement_is_run(call: Any, snapshots: str) -> None:
    statement = 'select count(*) as n from "all".total'
    assert json.loads(call("sql", snapshots, statement, "--json")) == [{"n": len(BY_KEY)}]
    assert str(len(BY_KEY)) in call("sql", snapshots, statement)
    assert "one SELECT" in call("sql", snapshots, "drop table x")


COLUMNS = "name string, data binary, number double, at timestamp, price decimal(5,2)"
AT = datetime(2026, 11, 17, 13, 5, tzinfo=timezone.utc)
ROWS = [
    ("null", b"\x00\xff", float("nan"), AT, Decimal("1.50")),
    (None, None, None, None, None),
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """States by keys of many types, of which one is null."""
    folder = tmp_path_factory.mktemp("typed")
    env = ms.Environment(spark="embedded", parallelism=1, snapshots=ms.Snapshots(folder))
    rows = env.source(ms.connectors.Rows(COLUMNS, ROWS), uid="rows")
    for column in ("name", "data", "number", "at", "price"):
        counted = rows.key_by(column).aggregate(n=ms.count(), uid=f"by_{column}")
        counted.sink(ms.connectors.Memory(), uid=f"out_{column}")
    assert env.start("typed").wait(60, progress=False) == "finished"
    return str(folder)


WRITTEN = {
    "name": ("null", "null"),
    "data": ("00ff", "00ff"),
    "number": ("NaN", "nan"),
    "at": ("2026-11-17T13:05:00Z", "2026-11-17T13:05:00+00:00"),
    "price": ("1.5", "1.50"),
}


@pytest.mark.parametrize("column", WRITTEN)
def test_a_key_is_written_and_shown_as_over_rest(call: Any, typed: str, column: str) -> None:
    text, shown = WRITTEN[column]
    state = f"by_{column}.aggregates"
    answer = json.loads(call("query", typed, state, "--key", text, "--json"), parse_constant=_none)
    assert [row[column] for row in answer["rows"]] == [shown]
    assert call("query", typed, state, "--key", text).splitlines()[1].split()[0] == shown
    # What was shown can be asked for.
    assert shown in call("query", typed, state, "--key", shown)
    (named,) = json.loads(
        call(
            "sql", typed, f'select "{column}" from {state} where "{column}" is not null', "--json"
        ),
        parse_constant=_none,
    )
    assert named[column] == shown


def _none(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize("column", WRITTEN)
def test_the_null_key_can_be_asked_for(call: Any, typed: str, column: str) -> None:
    said = call("query", typed, f"by_{column}.aggregates", "--null-key", "--json")
    (row,) = json.loads(said)["rows"]
    assert row[column] is None
    assert row["aggregates"] == {"n": 1}


def test_bytes_that_are_not_hexadecimal_are_refused(call: Any, typed: str) -> None:
    said = call("query", typed, "by_data.aggregates", "--key", "zz")
    assert said.startswith("error: ")
    assert "'zz' is no binary" in said


def test_a_name_of_nothing_is_said_to_be_neither_a_folder_nor_a_job(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MAINSTAY_REGISTRY", str(tmp_path))
    for said in (call("query", "nothing"), call("sql", "nothing", "select 1")):
        assert said.startswith("error: ")
        assert "there is no folder 'nothing', and no job 'nothing' has noted itself" in said


def test_an_epoch_can_be_named_with_a_folder_beside(
    call: Any, snapshots: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = json.loads(call("query", snapshots, "all.total", "--json"))["epoch"]
    monkeypatch.chdir(Path(snapshots).parent)
    said = call("query", f"snapshots#{latest}", "all.total", "--json")
    assert json.loads(said)["epoch"] == latest
