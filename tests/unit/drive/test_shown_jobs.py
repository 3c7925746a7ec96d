"""A job, as a terminal and a notebook show it, and what it returns, under public names."""

from __future__ import annotations

import io
import re
from pathlib import Path

import mainstay as ms
from mainstay.drive.progress import ProgressLine


def finished(directory: Path) -> ms.Job:
    env = ms.Environment(
        spark="embedded", parallelism=2, snapshots=ms.Snapshots(directory, every="1s")
    )
    rows = ms.connectors.Rows("n long", [(n,) for n in range(100)])
    numbers = env.source(rows, uid="in").rebalance().map(lambda row: row, "n long")
    numbers.key_by("n").aggregate(count=ms.count(), uid="counts").sink(
        ms.connectors.Memory(), uid="out"
    )
    job = env.start("<shown>")
    assert job.wait(60) == "finished"
    return job


def test_a_job_fits_on_a_line(tmp_path: Path) -> None:
    job = finished(tmp_path)
    assert re.fullmatch(r"<Job '<shown>': finished, epoch \d+, parallelism 2>", repr(job))
    assert job._repr_html_().startswith("<b>&lt;shown&gt;</b>: finished, epoch")


def test_what_a_job_returns_has_public_names_and_is_shown_as_tables(tmp_path: Path) -> None:
    job = finished(tmp_path)
    epochs, attempts = job.snapshots(), job.attempts()
    assert {type(each) for each in epochs} == {ms.EpochRecord}
    assert {type(each) for each in epochs[-1].figures.values()} == {ms.Figures}
    assert {type(each) for each in attempts} == {ms.AttemptRecord}
    assert {type(each) for each in job.metrics().values()} <= {ms.TaskMetrics}
    assert job.problems() == []
    assert len(repr(epochs).splitlines()) == len(epochs) + 1
    assert len(repr(attempts).splitlines()) == 2


def test_rows_are_counted_where_they_come_in_and_not_by_every_operator(tmp_path: Path) -> None:
    job = finished(tmp_path)
    assert "100 rows in" in ProgressLine(job, io.StringIO()).text(1.0)
