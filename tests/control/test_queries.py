"""State is asked from the command line by the name of a job, its address or its directory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.control.running import PATIENCE_S, Shell


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("busy"))
    with shell.program("counting", "snapshots"):
        yield shell


def test_a_job_is_asked_by_name_address_and_directory(busy: Shell) -> None:
    (entry,) = busy.entries()
    url = f"{entry['url']}#token={entry['token']}"
    for place in ("counting", url, "snapshots"):
        found = busy.mainstay("query", place, "counts.seen", "--key", "1", "--json")
        assert found.returncode == 0, found.stderr
        answer = json.loads(found.stdout)
        assert (answer["level"], answer["job"]) == ("committed", "counting")
        assert answer["rows"][0]["seen"] > 0
        counted = busy.mainstay("sql", place, "select count(*) as n from counts.seen", "--json")
        assert json.loads(counted.stdout) == [{"n": 3}], counted.stderr


def test_live_state_is_asked_of_the_job(busy: Shell) -> None:
    committed = busy.mainstay("query", "counting", "counts.seen", "--key", "1", "--json")
    live = busy.mainstay("query", "counting", "counts.seen", "--key", "1", "--live", "--json")
    assert live.returncode == 0, live.stderr
    answer = json.loads(live.stdout)
    assert answer["level"] == "live"
    assert answer["rows"][0]["seen"] > json.loads(committed.stdout)["rows"][0]["seen"]
    shown = busy.mainstay("query", "counting", "counts.seen", "--live")
    assert "live, after epoch" in shown.stdout
    refused = busy.mainstay("query", "snapshots", "counts.seen", "--key", "1", "--live")
    assert (refused.returncode, "job.url" in refused.stderr) == (1, True)


def test_an_answer_can_wait_for_an_epoch_and_for_offsets(busy: Shell) -> None:
    now = json.loads(busy.mainstay("query", "counting", "counts.seen", "--json").stdout)["epoch"]
    later = busy.mainstay("query", "counting", "counts.seen", "--after", str(now + 2), "--json")
    assert json.loads(later.stdout)["epoch"] >= now + 2
    wrong = busy.mainstay("query", "counting", "counts.seen", "--after", "soon")
    assert (wrong.returncode, "JSON object" in wrong.stderr) == (1, True)
    late = busy.mainstay(
        "query", "counting", "counts.seen", "--after", "1000000", "--timeout", "0.1"
    )
    assert (late.returncode, "has come up to" in late.stderr) == (1, True)


def test_a_job_that_was_killed_is_asked_by_its_name_all_the_same(shell: Shell) -> None:
    with shell.program("counting") as process:
        process.kill()
        process.wait(PATIENCE_S)
        found = shell.mainstay("query", "counting", "counts.seen", "--key", "1", "--json")
        assert json.loads(found.stdout)["rows"][0]["seen"] > 0
        gone = shell.mainstay("query", "counting", "counts.seen", "--key", "1", "--live")
        assert (gone.returncode, "is gone" in gone.stderr) == (1, True)
