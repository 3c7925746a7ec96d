"""What takes more than a moment is told on stderr, and what is not done in time goes on."""

from __future__ import annotations

import sys
import threading

import pytest

from mainstay.control import progress
from tests.control.running import PATIENCE_S, PROGRAM, Shell, await_true

STUCK = """
    def process(self, row, ctx):
        from pathlib import Path
        while not Path("go").exists():
            import threading
            threading.Event().wait(0.05)
        self.seen.update((self.seen.get() or 0) + 1)
        self.last.update(row.n)
        yield ctx.key, self.seen.get()
"""


def test_where_there_is_no_terminal_progress_is_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.01)
    monkeypatch.setattr(progress, "LINE_S", 0.01)
    asked = threading.Semaphore(0)

    def act() -> str:
        for _ in range(2):
            assert asked.acquire(timeout=PATIENCE_S)
        return "done"

    def news() -> str:
        asked.release()
        return "(running)"

    assert progress.watched("writing", act, news) == "done"
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert lines[:3] == [
        "mainstay: writing ...",
        "mainstay: writing ... (running)",
        "mainstay: writing ... (running)",
    ]


def test_what_is_done_at_once_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert progress.watched("writing", lambda: 7, lambda: "") == 7
    assert capsys.readouterr().err == ""


def test_an_error_of_the_job_is_raised_here() -> None:
    def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        progress.watched("writing", fail, lambda: "")


def test_what_is_not_done_in_time_is_under_way_and_is_done_later(shell: Shell) -> None:
    program = shell.folder / "job.py"
    whole = PROGRAM.read_text()
    begin, end = whole.index("    def process("), whole.index("\n\ndef environment(")
    program.write_text(whole[:begin] + STUCK.strip("\n") + whole[end:])
    with shell.process([sys.executable, str(program), "place", "stuck"]) as process:
        await_true(shell.entries, "it has noted itself")
        await_true(lambda: shell.job("stuck")["status"] == "running", "it runs")
        late = shell.mainstay("savepoint", "stuck", "saved", "--timeout", "2")
        assert late.returncode == 75, late.stderr
        assert "under way" in late.stdout
        assert "job 'stuck': writing the savepoint ..." in late.stderr
        (shell.folder / "go").touch()
        await_true((shell.folder / "saved" / "savepoint.json").exists, "it is written later")
        assert process.poll() is None
