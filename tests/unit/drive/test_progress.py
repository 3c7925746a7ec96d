"""The line that shows how a job is doing."""

from __future__ import annotations

import io

from mainstay.drive.progress import MOST_ROWS, SILENT_S, ProgressLine
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.messages import Epoch, TaskMetrics
from mainstay.runtime.status import EpochStatus, Problem, Setback


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Job:
    """A job that stands still."""

    name = "totals"
    status = "running"
    leader = ""
    rows = 1000

    def __init__(self) -> None:
        self.waits_for: list[Problem] = []
        self.emits_nothing: list[Silent] = []

    def silent(self) -> list[Silent]:
        return self.emits_nothing

    def problems(self) -> list[Problem]:
        return self.waits_for

    def snapshots(self) -> list[EpochRecord]:
        return [EpochRecord(Epoch(3), 1, EpochStatus.COMPLETE, 0.0, 0.25, 4096)]

    def metrics(self) -> dict[tuple[str, int], TaskMetrics]:
        return {
            ("in", 0): TaskMetrics(self.rows, is_source=True),
            ("in", 1): TaskMetrics(500, is_source=True),
            ("totals", 0): TaskMetrics(10 * self.rows),
        }


def test_nothing_is_written_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    line = ProgressLine(Job(), out)
    line.update(1.0)
    line.end()
    assert out.getvalue() == ""


def test_the_line_shows_the_rows_of_the_sources_their_rate_and_the_last_epoch() -> None:
    job = Job()
    line = ProgressLine(job, Terminal())
    line.text(1.0)
    job.rows = 3000
    text = line.text(3.0)
    assert text == "totals: running  3,500 rows in  1,000 rows/s  epoch 3 in 0.25 s, 4.0 KiB"


def test_the_line_shows_what_the_job_waits_for() -> None:
    job = Job()
    job.waits_for = [Problem("sink 'out'", "has not confirmed epoch 12", "OSError: away", 43.2)]
    text = ProgressLine(job, Terminal()).text(1.0)
    assert text.endswith("  sink 'out' has not confirmed epoch 12 for 43 s: OSError: away")


def test_a_terminal_gets_one_line_that_is_written_over() -> None:
    out = Terminal()
    line = ProgressLine(Job(), out)
    line.update(1.0)
    line.update(2.0)
    line.end()
    assert out.getvalue().count("\r") == 2
    assert out.getvalue().endswith("\n")


def test_the_line_shows_a_function_that_emits_nothing_but_no_filter() -> None:
    job = Job()
    job.emits_nothing = [Silent("totals", 1500, may_be=False), Silent("few", 9, may_be=True)]
    line = ProgressLine(job, Terminal())
    assert "0 rows out" not in line.text(1.0), "there may be some yet"
    text = line.text(1.0 + SILENT_S)
    assert text.endswith("'totals': 0 rows out of 1,500 in")


def test_notices_stand_above_the_line_once_each() -> None:
    out = Terminal()
    line = ProgressLine(Job(), out)
    line.update(1.0, ["totals: starting 2 workers"])
    line.update(2.0, ["totals: running"])
    line.clear()
    assert out.getvalue().count("totals: starting 2 workers\n") == 1
    assert out.getvalue().count("totals: running\n") == 1
    assert out.getvalue().endswith("\r\x1b[2K")


LONG = "operator 'count', subtask 0: ValueError: the record 30000 of this customer has no amount"


def test_a_terminal_of_eighty_columns_shows_why_a_job_restarts_and_no_row_is_wrapped() -> None:
    job = Job()
    job.status = "restarting"
    job.waits_for = [Setback("attempt 1", "attempt 2 begins in 2.8 s, from epoch 5", LONG, 0.2)]
    head, *below = ProgressLine(job, Terminal()).rows(1.0, 80)
    assert head == "totals: restarting  1,500 rows in  epoch 3 in 0.25 s, 4.0 KiB"
    assert " ".join(" ".join(below).split()).startswith(f"attempt 1 failed: {LONG}; attempt 2")
    assert all(len(row) < 80 for row in (head, *below))


def test_an_error_of_any_length_takes_a_few_rows_of_the_terminal() -> None:
    job = Job()
    job.waits_for = [Setback("attempt 1", "attempt 2 has begun", "no " * 1000, 0.2)]
    rows = ProgressLine(job, Terminal()).rows(1.0, 80)
    assert len(rows) <= MOST_ROWS
    assert rows[-1].endswith("…")
    assert all(len(row) < 80 for row in rows)


def test_rows_that_were_written_are_wiped_before_they_are_written_again() -> None:
    job, out = Job(), Terminal()
    job.waits_for = [Setback("attempt 1", "attempt 2 has begun", LONG, 0.2)]
    line = ProgressLine(job, out)
    line.update(1.0)
    written = out.getvalue().count("\n")
    assert written > 0
    line.update(2.0)
    assert f"\r\x1b[{written}A\x1b[J" in out.getvalue()


def test_figures_that_do_not_fit_are_left_out_and_not_cut() -> None:
    line = ProgressLine(Job(), Terminal())
    assert line.rows(1.0, 80) == [line.text(1.0)]
    assert line.rows(1.0, 60) == ["totals: running  1,500 rows in  0 rows/s  epoch 3"]
    assert line.rows(1.0, 45) == ["totals: running  1,500 rows in  0 rows/s"]


def test_the_rate_is_that_of_the_last_seconds_and_does_not_jump_between_two_reports() -> None:
    job = Job()
    line = ProgressLine(job, Terminal())
    rates = []
    for quarter in range(80):
        job.rows = 5000 * (quarter // 2)  # workers report every other time
        rates.append(line.rate(quarter / 4, job.rows))
    assert max(rates[20:]) < 1.2 * min(rates[20:])
    job.rows = 0
    assert line.rate(20.0, 0) == 0.0, "another attempt counts from the beginning"
    assert line.rate(20.5, 500) == 1000.0
