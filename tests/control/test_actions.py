"""A running job does what a command asks for, and the command says what came of it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

import mainstay as ms
from tests.control.running import PATIENCE_S, Shell


def page_of(shell: Shell) -> str:
    (entry,) = shell.entries()
    return f"{entry['url']}#token={entry['token']}"


def test_a_savepoint_is_written_while_the_job_goes_on(shell: Shell) -> None:
    with shell.program("counting"):
        done = shell.mainstay("savepoint", "counting", "saved")
        assert done.returncode == 0, done.stderr
        assert str(shell.folder / "saved") in done.stdout
        assert shell.job("counting")["status"] == "running"
        assert ms.connect(shell.folder / "saved").query("counts.seen", key=1).value > 0
        again = shell.mainstay("savepoint", "counting", "saved")
        assert again.returncode == 1
        assert "saved" in again.stderr
        assert "Traceback" not in again.stderr


def test_a_job_is_stopped_with_a_savepoint_and_its_program_ends(shell: Shell) -> None:
    with shell.program("counting") as process:
        done = shell.mainstay("stop", "counting", "--savepoint", "last", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["is_done"]
        assert told["path"] == str(shell.folder / "last")
        assert process.wait(PATIENCE_S) == 0
        assert ms.connect(shell.folder / "last").query("counts.seen", key=1).value > 0


def test_who_stops_a_job_is_answered_though_the_program_ends_with_it(shell: Shell) -> None:
    for _ in range(3):
        with shell.program("counting") as process:
            done = shell.mainstay("stop", page_of(shell))
            assert (done.returncode, process.wait(PATIENCE_S)) == (0, 0), done.stderr
            assert "stopped" in done.stdout


def test_a_job_goes_on_at_another_parallelism(shell: Shell) -> None:
    with shell.program("counting"):
        done = shell.mainstay("rescale", "counting", "3")
        assert done.returncode == 0, done.stderr
        assert shell.job("counting")["parallelism"] == 3


def test_a_job_is_cancelled_only_by_who_says_so(shell: Shell) -> None:
    with shell.program("counting") as process:
        unsure = shell.mainstay("cancel", "counting")
        assert unsure.returncode == 2
        assert "--yes" in unsure.stderr
        assert shell.job("counting")["status"] == "running"
        done = shell.mainstay("cancel", "counting", "--yes")
        assert done.returncode == 0, done.stderr
        assert "cancelled" in done.stdout
        process.wait(PATIENCE_S)


def test_an_address_with_its_token_names_a_job_too(shell: Shell) -> None:
    with shell.program("counting"):
        (entry,) = shell.entries()
        url, token = entry["url"], entry["token"]
        given: list[tuple[list[str], dict[str, str]]] = [
            ([f"{url}#token={token}"], {}),
            ([url, "--token", token], {}),
            ([url], {"MAINSTAY_TOKEN": token}),
        ]
        for number, (arguments, more) in enumerate(given):
            done = shell.mainstay("savepoint", *arguments, f"saved-{number}", **more)
            assert done.returncode == 0, done.stderr
        assert token not in done.stdout
        missing = shell.mainstay("savepoint", url, "saved-x")
        assert (missing.returncode, "has no token" in missing.stderr) == (1, True)
        wrong = shell.mainstay("savepoint", url, "saved-x", "--token", "x" * 20)
        assert (wrong.returncode, "token" in wrong.stderr) == (1, True)


WRONG: list[tuple[list[str], str]] = [
    (["stop", "countin"], "Did you mean 'counting'?"),
    (["stop", "counting", "--pid", "1"], "job 'counting' has no process 1. Give --pid one of: '"),
    (["stop", "http://127.0.0.1:9/#token=abc"], "nothing answers at http://127.0.0.1:9"),
    (["stop", "http://nowhere"], "has no token"),
    (["rescale", "counting", "4000"], "max_parallelism"),
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    shell = Shell(tmp_path_factory.mktemp("busy"))
    with shell.program("counting"):
        yield shell


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_cannot_be_done_is_said_in_a_line(
    busy: Shell, arguments: list[str], message: str
) -> None:
    said: subprocess.CompletedProcess[str] = busy.mainstay(*arguments)
    assert said.returncode == 1
    assert message in said.stderr
    assert "Traceback" not in said.stderr
    assert said.stdout == ""


def test_wrong_usage_is_code_2(busy: Shell) -> None:
    assert busy.mainstay("rescale", "counting", "many").returncode == 2
    assert busy.mainstay("savepoint", "counting").returncode == 2
