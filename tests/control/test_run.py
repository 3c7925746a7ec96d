"""``mainstay run``: an ordinary program with settings of the command line, and its exit code."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

import mainstay as ms
from mainstay.registry.folder import read_entries
from tests.control.running import PATIENCE_S, PROGRAM, Shell, await_true

BOUNDED = """
import sys
import mainstay as ms

def build(env):
    rows = ms.connectors.Rows("k string, n long", [("a", 1), ("b", 2), ("a", 3)])
    keyed = env.source(rows, uid="rows").key_by("k")
    keyed.aggregate(total=ms.sum("n"), uid="totals").sink(ms.connectors.Console(), uid="out")

if __name__ == "__main__":
    env = ms.Environment(
        spark="embedded", snapshots=ms.Snapshots("./from-program", retain=7), parallelism=1
    )
    build(env)
    job = env.start("from-program")
    print(job.wait(), sys.argv[1:], env)
"""


@pytest.fixture
def program(shell: Shell) -> Path:
    file = shell.folder / "job.py"
    file.write_text(BOUNDED)
    return file


def test_a_program_runs_as_it_is_with_a_page(shell: Shell, program: Path) -> None:
    done = shell.mainstay("run", str(program))
    assert done.returncode == 0, done.stderr
    assert "finished []" in done.stdout
    assert "job 'from-program' is at http://127.0.0.1:" in done.stderr
    assert "token" not in done.stderr
    assert "from the command line" not in done.stderr
    assert shell.entries() == []


def test_the_command_line_comes_before_what_the_program_says(shell: Shell, program: Path) -> None:
    done = shell.mainstay(
        *("run", str(program), "--parallelism", "3", "--snapshots", "elsewhere", "--name", "mine"),
        *("--no-ui", "--", "--own", "argument"),
    )
    assert done.returncode == 0, done.stderr
    assert "finished ['--own', 'argument']" in done.stdout
    assert "parallelism=3" in done.stdout
    assert "retain=7" in done.stdout
    assert "ui=" not in done.stdout
    said = "from the command line: parallelism=3, snapshots='elsewhere', name='mine'"
    assert said in done.stderr
    assert not (shell.folder / "from-program").exists()
    found = ms.connect(shell.folder / "elsewhere").query("totals.aggregates", key="a")
    assert found.moment.job == "mine"
    again = shell.mainstay("run", str(program), "--snapshots", "elsewhere", "--name", "mine")
    assert (again.returncode, "HistoryExistsError" in again.stderr) == (78, True)
    latest = ("--restore", "latest")
    gone_on = shell.mainstay(
        "run", str(program), "--snapshots", "elsewhere", "--name", "mine", *latest
    )
    assert gone_on.returncode == 0, gone_on.stderr


def test_workers_may_be_processes_of_their_own(shell: Shell, program: Path) -> None:
    done = shell.mainstay("run", str(program), "--master", "processes", "--parallelism", "2")
    assert done.returncode == 0, done.stderr
    assert "spark='processes'" in done.stdout


WRONG: list[tuple[str, int, str]] = [
    ("print('nothing')", 78, "has started no job"),
    ("raise SystemExit(7)", 7, ""),
    ("1 / 0", 1, "ZeroDivisionError"),
    ("this is no python", 1, "SyntaxError"),
    ("import mainstay as ms\nms.Environment(mode='twice')", 78, "GraphError"),
    ("def f(x: unknown): pass", 1, "NameError"),
]


@pytest.mark.parametrize(("text", "code", "message"), WRONG, ids=[each[0][:12] for each in WRONG])
def test_the_exit_code_says_what_to_do(shell: Shell, text: str, code: int, message: str) -> None:
    file = shell.folder / "job.py"
    file.write_text(text)
    done = shell.mainstay("run", str(file))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "mainstay/program" not in done.stderr


def test_a_function_that_fails_is_shown_with_the_line_of_the_program(
    shell: Shell, program: Path
) -> None:
    failing = BOUNDED.replace('ms.sum("n")', 'ms.sum("n")').replace(
        '.key_by("k")', '.map(lambda row: 1 / 0, "k string, n long", uid="bad").key_by("k")'
    )
    program.write_text(failing)
    done = shell.mainstay("run", str(program))
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "job.py" in done.stderr


def test_a_file_that_is_not_there_is_wrong_usage(shell: Shell) -> None:
    done = shell.mainstay("run", "nowhere.py")
    assert (done.returncode, "nowhere.py" in done.stderr) == (2, True)


def test_a_program_that_does_not_wait_is_waited_for(shell: Shell, program: Path) -> None:
    program.write_text(BOUNDED.replace("print(job.wait(), sys.argv[1:], env)", "print('done')"))
    done = shell.mainstay("run", str(program))
    assert done.returncode == 0, done.stderr
    assert "job 'from-program': finished" in done.stderr
    assert ms.connect(shell.folder / "from-program").query("totals.aggregates", key="a")


def command(*options: str) -> list[str]:
    arguments = ["--", "place", "counting"]
    return [sys.executable, "-m", "mainstay.cli", "run", str(PROGRAM), *options, *arguments]


@pytest.mark.parametrize("option", ["--ui", "--no-ui"])
def test_a_job_that_is_run_is_listed_with_a_page_or_without(shell: Shell, option: str) -> None:
    with shell.process(command(option)) as process:
        await_true(lambda: read_entries(shell.registry), "it has noted itself")
        found = shell.job("counting")
        assert found["pid"] == process.pid
        assert (found["url"] is None) == (option == "--no-ui")
        if option == "--no-ui":
            said = shell.mainstay("stop", "counting")
            assert (said.returncode, "serves no page" in said.stderr) == (1, True)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert "go on with restore=" in errors
        assert "Traceback" not in errors
    assert shell.entries() == []


def test_a_job_that_is_run_is_stopped_by_its_name(shell: Shell) -> None:
    with shell.process(command("--parallelism", "3", "--name", "mine")) as process:
        await_true(lambda: read_entries(shell.registry), "it has noted itself")
        await_true(lambda: shell.job("mine")["epoch"], "it has an epoch")
        assert shell.job("mine")["parallelism"] == 3
        done = shell.mainstay("stop", "mine")
        assert done.returncode == 0, done.stderr
        assert process.wait(PATIENCE_S) == 0
