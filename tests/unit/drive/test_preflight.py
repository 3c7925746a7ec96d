"""What is known of a job before Spark is started for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Files, Memory, Rows
from mainstay.drive.preflight import has_work
from mainstay.errors import HistoryExistsError, RestoreError, SourceError

ROWS = [(n,) for n in range(10)]


def program(directory: Path, source: Any, **settings: Any) -> ms.Environment:
    env = ms.Environment(snapshots=ms.Snapshots(directory), **settings)
    env.source(source, uid="in").sink(Memory(), uid="out")
    return env


def looked_at(env: ms.Environment, name: str = "job") -> bool:
    assert env.snapshots is not None
    return has_work(name, env.plan(), str(env.snapshots.dir), env.restore)


def run(directory: Path) -> None:
    job = program(directory, Rows("n long", ROWS), spark="embedded").start("job")
    assert job.wait(60) == "finished"


def test_a_fresh_job_with_input_has_work(tmp_path: Path) -> None:
    assert looked_at(program(tmp_path, Rows("n long", ROWS)))


def test_a_path_without_files_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    env = program(tmp_path, Files(str(tmp_path / "no" / "*.jsonl"), schema="n long"))
    with pytest.raises(SourceError, match="source 'in' cannot be planned: no file matches"):
        looked_at(env)


def test_a_directory_that_is_used_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(HistoryExistsError):
        looked_at(program(tmp_path, Rows("n long", ROWS)))
    with pytest.raises(RestoreError, match="history of job 'job', and this job is 'other'"):
        looked_at(program(tmp_path, Rows("n long", ROWS), restore="latest"), "other")
    with pytest.raises(RestoreError, match="there is no epoch 99"):
        looked_at(program(tmp_path, Rows("n long", ROWS), restore=99))


def test_a_finished_job_has_work_only_if_there_is_new_input(tmp_path: Path) -> None:
    run(tmp_path)
    assert not looked_at(program(tmp_path, Rows("n long", ROWS), restore="latest"))
    more = Rows("n long", [*ROWS, (10,)])
    assert looked_at(program(tmp_path, more, restore="latest"))


def test_spark_is_not_started_for_a_job_that_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = pytest.importorskip("mainstay.spark.launch.start")

    def refuse(workers: int, master: str | None) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(start, "own_session", refuse)
    monkeypatch.setattr(start, "is_spark_running", lambda: False)
    run(tmp_path / "done")
    job = program(tmp_path / "done", Rows("n long", ROWS), restore="latest").start("job")
    assert job.wait(60) == "finished"
    assert "no new input" in job.restored[0]
    wrong = program(tmp_path / "new", Files(str(tmp_path / "*.jsonl"), schema="n long"))
    with pytest.raises(SourceError):
        wrong.start("job")
    with pytest.raises(AssertionError):
        program(tmp_path / "other", Rows("n long", ROWS)).start("job")
