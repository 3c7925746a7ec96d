"""Jobs note themselves, and one that was killed is seen to be gone."""

from __future__ import annotations

import gc
import json
import signal
import stat
import subprocess
import sys

import pytest

from tests.control.program import environment
from tests.control.running import PATIENCE_S, PROGRAM, Shell


def test_a_job_is_listed_while_it_runs_and_forgotten_when_it_ends(shell: Shell) -> None:
    with shell.program("counting") as process:
        found = shell.job("counting")
        assert (found["status"], found["pid"]) == ("running", process.pid)
        assert found["parallelism"] == 2
        assert found["place"] == str(shell.folder / "counting")
        assert "token" not in json.dumps(found)
        (entry,) = shell.entries()
        assert entry["token"]
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    assert shell.entries() == []
    assert "no job runs here" in shell.mainstay("jobs").stdout


def test_nobody_else_can_read_an_entry(shell: Shell) -> None:
    with shell.program("counting"):
        (file,) = shell.registry.glob("*.json")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(shell.registry.stat().st_mode) == 0o700


def test_a_job_whose_process_was_killed_is_gone_with_its_last_epoch(shell: Shell) -> None:
    with shell.program("counting") as process:
        process.kill()
        process.wait(PATIENCE_S)
        found = shell.job("counting")
        assert found["status"] == "gone"
        assert found["epoch"] >= 1
        assert "gone" in shell.mainstay("jobs").stdout
        said = shell.mainstay("stop", "counting")
        assert said.returncode == 1
        assert f"its last epoch is {found['epoch']}" in said.stderr
        assert "--restore latest" in said.stderr
    pruned = shell.mainstay("jobs", "--prune", "--json")
    assert json.loads(pruned.stdout) == []
    assert "1 job forgotten" in pruned.stderr
    assert shell.entries() == []


def test_a_pid_that_another_process_has_by_now_is_not_the_job(shell: Shell) -> None:
    with shell.program("counting") as process:
        (file,) = shell.registry.glob("*.json")
        entry = json.loads(file.read_text())
        assert entry["pid"] == process.pid
        # As if the job had been killed, and its pid given to this program since.
        boot, _, ticks = entry["process"].rpartition(":")
        file.write_text(json.dumps({**entry, "process": f"{boot}:{int(ticks) - 1}"}))
        assert shell.job("counting")["status"] == "gone"


def test_an_entry_of_before_a_reboot_is_gone(shell: Shell) -> None:
    with shell.program("counting"):
        (file,) = shell.registry.glob("*.json")
        entry = json.loads(file.read_text())
        ticks = entry["process"].rpartition(":")[2]
        file.write_text(json.dumps({**entry, "process": f"another boot:{ticks}"}))
        assert shell.job("counting")["status"] == "gone"


def test_two_jobs_of_one_name_are_told_apart_by_pid(shell: Shell) -> None:
    with shell.program("counting", "a") as first, shell.program("counting", "b") as second:
        assert {each["pid"] for each in shell.jobs()} == {first.pid, second.pid}
        said = shell.mainstay("stop", "counting")
        assert said.returncode == 1
        assert f"--pid {first.pid}" in said.stderr
        assert f"--pid {second.pid}" in said.stderr
        done = shell.mainstay("stop", "counting", "--pid", str(first.pid))
        assert done.returncode == 0, done.stderr
        first.wait(PATIENCE_S)
        assert [each["pid"] for each in shell.jobs()] == [second.pid]


def test_a_registry_that_cannot_be_written_is_a_warning_and_the_job_runs(shell: Shell) -> None:
    shell.registry.write_text("a file in the place of the folder")
    program = (
        "import sys; sys.argv = ['program.py']; import runpy\n"
        f"module = runpy.run_path({str(PROGRAM)!r})\n"
        "for name in ('a', 'b'):\n"
        "    job = module['environment'](name).start(name)\n"
        "    job.stop(); print(job.wait(progress=False))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=shell.environment,
        cwd=shell.folder,
        timeout=PATIENCE_S,
    )
    assert found.stdout.split() == ["stopped", "stopped"], found.stderr
    assert found.stderr.count("MAINSTAY_REGISTRY") == 1


def test_a_file_that_is_no_entry_is_named_and_left_out(shell: Shell) -> None:
    shell.registry.mkdir()
    (shell.registry / "strange.json").write_text("[]")
    (shell.registry / "later.json").write_text('{"format": 99}')
    found = shell.mainstay("jobs", "--json")
    assert json.loads(found.stdout) == []
    assert "strange.json" in found.stderr
    assert "another version" in found.stderr


def test_a_shell_completes_the_names_of_jobs(shell: Shell) -> None:
    asked = {
        "_MAINSTAY_COMPLETE": "complete_bash",
        "COMP_WORDS": "mainstay stop cou",
        "COMP_CWORD": "2",
    }
    with shell.program("counting"):
        assert shell.mainstay(**asked).stdout.split() == ["counting"]
        none = {**asked, "COMP_WORDS": "mainstay stop other"}
        assert shell.mainstay(**none).stdout.split() == []


def test_a_job_that_ended_in_a_program_that_goes_on_is_shown_where_all_are(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTAY_REGISTRY", str(shell.registry))
    job = environment(str(shell.folder / "place")).start("counting")
    job.stop()
    assert shell.jobs() == []
    assert "--all" in shell.mainstay("jobs").stdout
    assert [each["status"] for each in shell.jobs("--all")] == ["stopped"]
    # A program that has dropped the handle has no job any more.
    del job
    gc.collect()
    assert shell.entries() == []
