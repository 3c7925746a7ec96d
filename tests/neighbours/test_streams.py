"""Standard streams that are missing, closed or broken: a job does not depend on who watches it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Console, Memory, Rows
from mainstay.drive.progress import ProgressLine
from mainstay.drive.streams import is_terminal, tell


@pytest.fixture
def broken() -> Iterator[io.TextIOWrapper]:
    """A pipe that nobody reads from any more."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = io.TextIOWrapper(io.FileIO(writing, "w"), write_through=True)
    yield stream
    stream.close()


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


def finished(folder: Path, sink: Any) -> str:
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder / "snapshots", "50ms"))
    source = Rows("n long", [(n,) for n in range(10)])
    env.source(source, uid="rows").sink(sink, uid="out")
    return env.start("quiet").wait(30.0)


@pytest.mark.parametrize("stream", ["none", "closed", "broken"])
def test_a_job_without_standard_error_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, stream: str
) -> None:
    streams = {"none": None, "closed": closed(), "broken": broken}
    monkeypatch.setattr(sys, "stderr", streams[stream])
    out = Memory()
    assert finished(tmp_path, out) == "finished"
    assert sorted(out.rows()) == [(n,) for n in range(10)]


def test_a_console_without_standard_output_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert finished(tmp_path, Console()) == "finished"


def test_nobody_sits_in_front_of_a_stream_that_is_not_there() -> None:
    assert not is_terminal(None)
    assert not is_terminal(closed())
    assert not is_terminal(io.StringIO())


def test_what_is_told_to_nobody_is_not_told_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: Any
) -> None:
    for stream in (None, closed(), broken):
        monkeypatch.setattr(sys, "stderr", stream)
        tell("a line")
    assert capsys.readouterr().out == ""


class Gone(io.StringIO):
    """A terminal that was there at first."""

    writes = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes += 1
        raise OSError(5, "Input/output error")


class Watched:
    """As much of a job as a progress line asks for."""

    name, status, leader = "job", "running", ""

    def snapshots(self) -> list[Any]:
        return []

    def metrics(self) -> dict[Any, Any]:
        return {}

    def problems(self) -> list[Any]:
        return []

    def silent(self) -> list[Any]:
        return []


def test_a_terminal_that_has_gone_is_written_to_once() -> None:
    out = Gone()
    line = ProgressLine(Watched(), out)
    for second in range(3):
        line.update(float(second), ["a notice"])
    line.clear()
    line.end()
    assert out.writes == 1


@pytest.mark.mutation
def test_a_line_that_goes_to_standard_output_instead_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: Any
) -> None:
    def careless(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)

    monkeypatch.setitem(globals(), "tell", careless)
    with pytest.raises(AssertionError):
        test_what_is_told_to_nobody_is_not_told_to_standard_output(monkeypatch, capsys, broken)


@pytest.mark.mutation
def test_a_line_that_is_written_to_a_terminal_that_has_gone_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(Gone):
        def write(self, text: str) -> int:
            self.writes += 1
            return len(text)

    monkeypatch.setitem(globals(), "Gone", Stubborn)
    with pytest.raises(AssertionError):
        test_a_terminal_that_has_gone_is_written_to_once()
