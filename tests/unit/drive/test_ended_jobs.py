"""What a job that has ended, or has nothing to change, says when something is asked of it."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

from mainstay.errors import GraphError, JobOverError, SavepointError, UserFunctionError
from tests.unit.drive.test_embedded import (
    PATIENCE_S,
    Failing,
    Gated,
    Telling,
    check_complete,
    opened,
    start,
)
from tests.unit.drive.test_errors import Plain, await_true, endless


def test_a_second_start_in_the_directory_of_a_running_job_is_refused(tmp_path: Path) -> None:
    job = endless(tmp_path, Plain())
    refused = r"job 'endless' of this program is running in .*job\.stop\(\)"
    with pytest.raises(GraphError, match=refused):
        start(tmp_path / "." / "", opened(), Telling(), restore="latest")
    assert job.status == "running"
    job.stop()
    again = endless(tmp_path, Plain(), restore="latest")
    again.cancel()
    assert len(again.attempts()) == 1


def finished(directory: Path) -> Any:
    job = start(directory, opened(), Telling())
    assert job.wait(PATIENCE_S) == "finished"
    return job


def test_a_rescale_to_the_parallelism_that_a_job_has_changes_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstay")
    source, sink = Gated(), Telling()
    job = start(tmp_path, source, sink, parallelism=2)
    sink.await_half()
    job.rescale(2, PATIENCE_S)
    assert "runs at parallelism 2 already, there is nothing to rescale" in caplog.text
    assert len(job.attempts()) == 1
    source.open_gate()
    assert job.wait(PATIENCE_S) == "finished"
    check_complete(sink)


def test_a_rescale_of_a_job_that_has_ended_is_refused_at_any_parallelism(tmp_path: Path) -> None:
    job = finished(tmp_path)
    for parallelism in (job.parallelism, job.parallelism + 1):
        with pytest.raises(JobOverError, match=r"job 'numbers' is over \(finished\)"):
            job.rescale(parallelism, PATIENCE_S)


def test_a_stop_of_a_job_that_is_over_does_nothing_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mainstay")
    job = finished(tmp_path)
    assert job.stop(timeout=PATIENCE_S) is None
    assert "job 'numbers': finished already, there is nothing to stop" in caplog.text
    with pytest.raises(SavepointError, match=r"was not written: job 'numbers' is over \(finished"):
        job.stop(tmp_path / "saved", timeout=PATIENCE_S)


def test_a_job_is_stopped_once_and_a_second_stop_does_nothing(tmp_path: Path) -> None:
    sink = Telling()
    job = start(tmp_path, Gated(), sink)
    sink.await_half()
    job.stop(timeout=PATIENCE_S)
    assert job.stop(timeout=PATIENCE_S) is None
    assert job.status == "stopped"


def test_a_stop_of_a_job_that_has_failed_names_the_failure(tmp_path: Path) -> None:
    job = start(tmp_path, opened(), Telling(), Failing())
    with pytest.raises(UserFunctionError):
        job.wait(PATIENCE_S)
    with pytest.raises(JobOverError, match=r"it has failed.*ValueError: no such order") as raised:
        job.stop(timeout=PATIENCE_S)
    assert isinstance(raised.value.__cause__, UserFunctionError)


def test_a_stop_of_a_job_that_was_cancelled_says_how_to_go_on(tmp_path: Path) -> None:
    sink = Telling()
    job = start(tmp_path, Gated(), sink)
    sink.await_half()
    job.cancel()
    with pytest.raises(JobOverError, match=r"nothing to stop.*cancelled .*go on with restore="):
        job.stop(timeout=PATIENCE_S)


def test_a_job_that_has_ended_does_not_say_that_something_is_to_come_yet(tmp_path: Path) -> None:
    finished(tmp_path)
    again = start(tmp_path, opened(), Telling(), restore="latest")
    assert again.wait(PATIENCE_S) == "finished"
    assert repr(again.attempts()) == "no attempts"
    assert repr(again.recoveries()) == "no recoveries"
    assert repr(again.metrics()) == "no figures"
    assert repr(again.problems()) == "no problems"


def test_a_rescale_is_no_failure_among_the_recoveries(tmp_path: Path) -> None:
    job = endless(tmp_path, Plain())
    job.rescale(3, PATIENCE_S)
    await_true(job, lambda: bool(job.recoveries()))
    (recovery,) = job.recoveries()
    job.cancel()
    assert recovery.is_rescale
    assert "fail" not in f"{recovery} {job.recoveries()!r}"
    assert "a rescale" in repr(job.recoveries())


def test_metrics_are_a_table_for_people_and_a_dictionary_for_programs(tmp_path: Path) -> None:
    job = finished(tmp_path)
    metrics = job.metrics()
    assert isinstance(metrics, dict)
    assert metrics == job._leadership.coordinator.execution.metrics()
    head, *rows = repr(metrics).splitlines()
    assert head.split()[:3] == ["task", "subtask", "rows"]
    assert len(rows) == len(metrics)
    assert metrics._repr_html_().count("<tr>") == len(metrics) + 1
    assert pickle.loads(pickle.dumps(metrics)) == metrics
