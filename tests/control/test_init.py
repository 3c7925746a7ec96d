"""``mainstay init``: a project whose test passes, and whose job runs at once."""

from __future__ import annotations

import json
import subprocess
import sys

from mainstay.connectors import read_committed
from tests.control.running import PATIENCE_S, Shell, await_true


def test_a_new_project_is_tested_run_asked_and_stopped(shell: Shell) -> None:
    made = shell.mainstay("init", "visits")
    assert made.returncode == 0, made.stderr
    folder = shell.folder / "visits"
    names = ["README.md", "job.py", "requirements.txt", "test_job.py"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert (folder / "README.md").read_text().startswith("# visits\n")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert tested.returncode == 0, tested.stdout
    inside = Shell(folder)
    with inside.process([sys.executable, "-m", "mainstay.cli", "run", "job.py"]) as process:
        await_true(inside.entries, "the job has noted itself")
        await_true(lambda: inside.job("visits")["epoch"], "an epoch is complete")
        live = inside.mainstay("query", "visits", "pages.count", "--live", "--json")
        assert json.loads(live.stdout)["rows"], live.stderr
        done = inside.mainstay("stop", "visits")
        assert done.returncode == 0, done.stderr
        assert process.wait(PATIENCE_S) == 0
    counted = inside.mainstay(
        "sql", "snapshots", 'select sum("count") as n from pages.count', "--json"
    )
    (row,) = json.loads(counted.stdout)
    assert int(row["n"]) == read_committed(str(folder / "out")).num_rows > 0


def test_a_folder_with_something_in_it_is_left_alone(shell: Shell) -> None:
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "job.py").write_text("# mine")
    refused = shell.mainstay("init", "mine")
    assert (refused.returncode, "is not empty" in refused.stderr) == (1, True)
    assert [file.name for file in (shell.folder / "mine").iterdir()] == ["job.py"]
    assert (shell.folder / "mine" / "job.py").read_text() == "# mine"
