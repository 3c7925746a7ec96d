"""Lines that functions print: how they are heard, bounded, kept and shown."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.drive import tee
from mainstay.drive.at_work import at_work
from mainstay.drive.output_record import KEPT_ATTEMPTS, KEPT_LINES, OutputRecord
from mainstay.drive.printed import MOST_AT_ONCE, MOST_WAITING, Printed, PrintedLine, WaitingLines
from mainstay.drive.tee import MOST_LETTERS, Tee, listening


def texts(heard: list[PrintedLine]) -> list[str]:
    return [each.text for each in heard]


@contextlib.contextmanager
def hearing(**how: Any) -> Any:
    """A standard output of one's own, and what is heard of it."""
    heard: list[PrintedLine] = []
    out = io.StringIO()
    with contextlib.redirect_stdout(out), listening(heard.append, **{"to_all": True, **how}):
        yield heard, out


# ---------------------------------------------------------------- hearing


def test_lines_are_heard_and_go_where_they_went() -> None:
    with hearing() as (heard, out):
        print("one", 2)
        sys.stdout.write("th")
        sys.stdout.write("ree\nfour\n")
    assert texts(heard) == ["one 2", "three", "four"]
    assert out.getvalue() == "one 2\nthree\nfour\n"


def test_lines_that_others_show_are_not_printed_here() -> None:
    with hearing(is_printed=False) as (heard, out):
        print("shown elsewhere")
    assert texts(heard) == ["shown elsewhere"]
    assert out.getvalue() == ""


def test_a_line_without_an_end_is_heard_at_the_end() -> None:
    with hearing() as (heard, _):
        sys.stdout.write("no end")
        assert heard == []
    assert texts(heard) == ["no end"]


def test_a_long_line_is_cut() -> None:
    with hearing() as (heard, _):
        print("x" * (3 * MOST_LETTERS))
        sys.stdout.write("y" * (3 * MOST_LETTERS))
    assert texts(heard) == ["x" * MOST_LETTERS + "…", "y" * MOST_LETTERS + "…"]


def test_one_thread_is_heard_alone() -> None:
    with hearing(to_all=False) as (heard, out):
        other = threading.Thread(target=print, args=("another thread",))
        other.start()
        other.join()
        print("this thread")
    assert texts(heard) == ["this thread"]
    assert out.getvalue() == "another thread\nthis thread\n"


def test_the_streams_are_as_before_when_nobody_listens_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Jobs of other tests may listen meanwhile.
    monkeypatch.setattr(tee, "_listeners", [])
    before = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", before[0])
    monkeypatch.setattr(sys, "stderr", before[1])
    with listening(lambda _: None, to_all=True), listening(lambda _: None, to_all=False):
        assert isinstance(sys.stdout, Tee)
        assert sys.stdout.encoding == before[0].encoding
    assert (sys.stdout, sys.stderr) == before


def test_a_stream_that_somebody_else_puts_in_place_stays() -> None:
    own = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        with listening(lambda _: None, to_all=True):
            sys.stdout = own
        assert sys.stdout is own


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_prints_for_itself(tmp_path: Path) -> None:
    heard: list[PrintedLine] = []
    with (
        (tmp_path / "out").open("w") as out,
        contextlib.redirect_stdout(out),
        listening(heard.append, to_all=True, is_printed=False),
    ):
        child = os.fork()
        if not child:
            print("from the child", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    assert heard == []
    assert (tmp_path / "out").read_text() == "from the child\n"


def test_nobody_is_at_work_outside_an_operator() -> None:
    assert at_work() is None


# ---------------------------------------------------------------- on the way


def line(text: str) -> PrintedLine:
    return PrintedLine(1.0, "stdout", text)


def test_lines_are_sent_a_hundred_at_a_time_and_not_too_often() -> None:
    sent: list[Printed] = []
    lines = WaitingLines(1, 2, sent.append)
    lines.send_if_due(0.0)
    assert sent == []
    for n in range(MOST_AT_ONCE + 5):
        lines.add(line(str(n)))
    for now in (0.0, 0.01, 0.2, 0.4):
        lines.send_if_due(now)
    assert [len(each.lines) for each in sent] == [MOST_AT_ONCE, 5]
    assert (sent[0].attempt, sent[0].worker, sent[0].left_out) == (1, 2, 0)


def test_of_too_many_lines_the_last_are_sent_and_the_others_counted() -> None:
    sent: list[Printed] = []
    lines = WaitingLines(1, 2, sent.append)
    for n in range(MOST_WAITING + 30):
        lines.add(line(str(n)))
    lines.send_all()
    lines.send_all()
    assert sent[0].left_out == 30
    assert texts(list(sent[0].lines))[-1] == str(MOST_WAITING + 29)
    assert len(sent) == 1


# ---------------------------------------------------------------- kept and shown


def test_the_last_lines_of_the_last_attempts_are_kept() -> None:
    record = OutputRecord("job", lambda: None)
    for attempt in range(1, 6):
        for n in range(KEPT_LINES + 1 if attempt == 5 else 1):
            record.keep(attempt, 0, line(f"{attempt}.{n}"))
    found, left_out = record.lines()
    assert {each.attempt for each in found} == set(range(6 - KEPT_ATTEMPTS, 6))
    assert left_out == 1
    assert record.lines(5)[0][-1].line.text == f"5.{KEPT_LINES}"
    assert record.lines(1) == ([], 0)


def test_lines_of_workers_are_shown_with_a_prefix_below_a_cleared_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cleared: list[int] = []
    record = OutputRecord("job", lambda: cleared.append(1))
    of_operator = PrintedLine(1.0, "stdout", "hello", "totals", 1)
    record.printed(Printed(1, 1, (of_operator, line("from nowhere")), left_out=1234))
    assert capsys.readouterr().err == (
        "[worker 1] … 1,234 lines left out\n[totals 1] hello\n[worker 1] from nowhere\n"
    )
    assert len(cleared) == 3


def test_a_program_that_shows_information_gets_lines_as_log_records(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    record = OutputRecord("job", lambda: None)
    with caplog.at_level(logging.INFO, "mainstay.output"):
        record.printed(Printed(3, 1, (PrintedLine(1.0, "stderr", "hello", "totals", 1),)))
    (found,) = caplog.records
    assert found.getMessage() == "[totals 1] hello"
    assert (found.attempt, found.operator, found.subtask) == (3, "totals", 1)  # type: ignore[attr-defined]
    assert capsys.readouterr().err == ""


# ---------------------------------------------------------------- embedded


class Talking(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        print("row", row.n)
        yield (row.n,)


def test_an_embedded_job_keeps_what_its_functions_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = ms.Environment(spark="embedded", parallelism=2, snapshots=ms.Snapshots(tmp_path))
    rows = env.source(ms.connectors.Rows("n long", [(n,) for n in range(5)]), uid="in")
    rows.key_by("n").process(Talking(), "n long", uid="talk").sink(
        ms.connectors.Memory(), uid="out"
    )
    job: Any = env.start("talking")
    assert job.wait(60, progress=False) == "finished"
    found = job.insight.output.lines()[0]
    assert sorted(each.line.text for each in found) == [f"row {n}" for n in range(5)]
    assert {each.line.operator for each in found} == {"talk"}
    assert all(each.line.subtask == each.worker for each in found)
    assert sorted(capsys.readouterr().out.split("\n"))[1:] == [f"row {n}" for n in range(5)]
