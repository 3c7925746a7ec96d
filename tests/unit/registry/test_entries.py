"""An entry tells a process from another that has its pid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.registry.entry import Entry, UnreadableError
from mainstay.registry.folder import read_entries, remove, write_entry
from mainstay.registry.processes import is_alive, start_mark

PAGE = "http://127.0.0.1:1/#token=secret"


def test_a_process_is_known_while_it_runs_and_not_after() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        mark = start_mark(process.pid)
        assert is_alive(process.pid, mark)
        assert start_mark(process.pid) == mark
        assert mark != start_mark(os.getpid())
        assert not is_alive(process.pid, f"{mark}0")
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Nobody has asked how it ended, so its pid is still its own.
        assert not is_alive(process.pid, mark)
    assert not is_alive(process.pid, mark)


def test_no_process_has_a_pid_that_is_none() -> None:
    assert start_mark(0) is None
    assert start_mark(-1) is None
    assert start_mark(2**30) is None


def test_an_entry_is_what_was_written(tmp_path: Path) -> None:
    entry = Entry.of_this_process("ä / b", PAGE, "/place", 12.5)
    file = write_entry(entry, tmp_path / "new" / "folder")
    assert read_entries(file.parent) == [(file, entry)]
    assert (entry.url, entry.token) == ("http://127.0.0.1:1/", "secret")
    assert "secret" not in repr(entry)
    assert entry.is_here
    assert not entry.is_gone
    remove(file)
    remove(file)
    assert read_entries(file.parent) == []


def test_two_jobs_of_one_process_and_name_are_two_entries(tmp_path: Path) -> None:
    for at in (2.0, 1.0):
        write_entry(Entry.of_this_process("job", None, "/place", at), tmp_path)
    assert [entry.started_at for _, entry in read_entries(tmp_path)] == [1.0, 2.0]


def test_of_another_machine_a_pid_says_nothing() -> None:
    entry = Entry.of_this_process("job", PAGE, "/place", 1.0)
    assert not replace(entry, host="elsewhere", process="another").is_gone
    assert replace(entry, process="another").is_gone


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', "null"])
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        Entry.from_json(text)


def test_the_format_of_an_entry_is_the_first() -> None:
    entry = Entry.of_this_process("job", PAGE, "/place", 1.0)
    assert json.loads(entry.to_json())["format"] == 1
    assert Entry.from_json(entry.to_json()) == entry
