"""``mainstay query`` and ``mainstay sql``: what they say of a real directory."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

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
    assert "'one' is no int32" in call("query", snapshots, "all.total", "--key", wrong)
    assert "error: mainstay: " in call("query", snapshots, "all.total", "--epoch", "999")
    assert "error: mainstay: " in call("query", str(Path(snapshots) / "nowhere"))


def test_a_statement_is_run(call: Any, snapshots: str) -> None:
    statement = 'select count(*) as n from "all".total'
    assert json.loads(call("sql", snapshots, statement, "--json")) == [{"n": len(BY_KEY)}]
    assert str(len(BY_KEY)) in call("sql", snapshots, statement)
    assert "one SELECT" in call("sql", snapshots, "drop table x")
