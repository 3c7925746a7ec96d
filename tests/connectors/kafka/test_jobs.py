"""Kafka → keyed state → Kafka through rescales, crashes, kills and outages, with a real broker."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from mainstay.drive.remote_job import RemoteJob
from tests.connectors.kafka.pipeline import PATIENCE_S, Pipeline
from tests.drive.ledger import await_until, complete_epochs
from tests.edges import CRASH_POINTS, Crashing
from tests.services.kafka import KafkaBroker

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("kafka")]

SEND_STEP = "mainstay.connectors.kafka.channel:Channel._send"
COMMIT_STEP = "mainstay.connectors.kafka.channel:Channel._commit"


@pytest.fixture
def pipeline(broker: KafkaBroker, tmp_path: Path, topic: Callable[..., str]) -> Pipeline:
    return Pipeline(broker, tmp_path, topic)


def await_rows(pipeline: Pipeline, count: int) -> None:
    await_until(lambda: len(pipeline.rows()) >= count, f"{count} rows are committed", PATIENCE_S)


def test_every_row_arrives_once_also_with_a_rescale_in_the_middle(pipeline: Pipeline) -> None:
    pipeline.send(2_000)
    job = pipeline.start(until=None)
    await_rows(pipeline, 2_000)
    job.rescale(3, PATIENCE_S)
    pipeline.send(1_000)
    await_rows(pipeline, 2_500)
    job.rescale(1, PATIENCE_S)
    pipeline.send(1_000)
    await_rows(pipeline, 4_000)
    job.stop(timeout=PATIENCE_S)
    assert len(job.attempts()) == 3
    pipeline.check()


def test_nothing_is_seen_before_its_epoch_is_complete(pipeline: Pipeline) -> None:
    pipeline.send(500)
    job = pipeline.start(until=None, every_s=3600.0)
    await_until(
        lambda: sum(m.rows for (task, _), m in job.metrics().items() if "ids" not in task) >= 500,
        "the task of the sink has taken all rows",
        PATIENCE_S,
    )
    assert pipeline.broker.uncommitted(pipeline.outgoing, 2) == []
    job.stop(timeout=PATIENCE_S)
    pipeline.check()


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_crash_at_any_point_of_a_commit_loses_and_doubles_nothing(
    pipeline: Pipeline, tmp_path: Path, point: str
) -> None:
    crash(pipeline, tmp_path, Crashing(pipeline.sink(), point, tmp_path / "crashed", visit=1))


@pytest.mark.parametrize("step", [SEND_STEP, COMMIT_STEP])
def test_a_crash_around_the_commit_of_a_transaction_is_looked_up_in_the_ledger(
    pipeline: Pipeline, tmp_path: Path, step: str
) -> None:
    marker = tmp_path / "crashed"
    sink = Crashing(pipeline.sink(), "during_commit", marker, visit=1, within=step)
    crash(pipeline, tmp_path, sink)


def crash(pipeline: Pipeline, tmp_path: Path, sink: Crashing, drive: str = "embedded") -> None:
    pipeline.send(1_000)
    job = pipeline.start(sink, until=None, drive=drive)
    # More rows in later epochs, so that there is something in every subtask before and after.
    await_until(lambda: complete_epochs(job) > 0, "an epoch is complete", PATIENCE_S)
    pipeline.send(1_000)
    await_until(lambda: sink.has_crashed, "the sink has crashed", PATIENCE_S)
    pipeline.send(500)
    await_rows(pipeline, 2_500)
    job.stop(timeout=PATIENCE_S)
    assert len(job.attempts()) >= 2
    pipeline.check()


def test_a_worker_killed_with_its_transaction_open_loses_and_doubles_nothing(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    marker = tmp_path / "crashed"
    sink = Crashing(pipeline.sink(), "during_commit", marker, kill=True, visit=1, within=SEND_STEP)
    crash(pipeline, tmp_path, sink, drive="processes")


def test_a_broker_that_is_away_for_a_while_is_waited_for(pipeline: Pipeline) -> None:
    pipeline.send(1_000)
    job = pipeline.start(until=None)
    await_rows(pipeline, 1_000)
    pipeline.broker.stop()
    try:
        problem = await_until(job.problems, "the job has a problem", PATIENCE_S)[0]
        assert "'ids'" in str(problem)
        assert job.status == "running"
    finally:
        pipeline.broker.start()
    pipeline.send(1_000)
    await_rows(pipeline, 2_000)
    await_until(lambda: not job.problems(), "the problem is over", PATIENCE_S)
    job.stop(timeout=PATIENCE_S)
    assert [attempt.reason for attempt in job.attempts()] == ["stopped"]
    pipeline.check()


@pytest.mark.soak
def test_a_broker_that_is_frozen_in_the_middle_of_deliveries_is_waited_for(
    pipeline: Pipeline,
) -> None:
    job = pipeline.start(until=None)
    for _ in range(3):
        pipeline.send(2_000)
        pipeline.broker.freeze()
        try:
            await_until(job.problems, "the job has a problem", PATIENCE_S)
        finally:
            pipeline.broker.thaw()
        await_rows(pipeline, pipeline.sent)
    job.stop(timeout=PATIENCE_S)
    pipeline.check()


@pytest.mark.soak
def test_twenty_workers_killed_at_random_times(pipeline: Pipeline) -> None:
    rng = random.Random(77)
    job = pipeline.start(until=None, drive="processes", max_failures=100)
    assert isinstance(job, RemoteJob)
    for attempt in range(1, 21):
        await_until(
            lambda attempt=attempt: len(job.attempts()) >= attempt and len(job.workers()) == 2,
            f"the workers of attempt {attempt} have come in",
            PATIENCE_S,
        )
        pipeline.send(300)
        threading.Event().wait(rng.uniform(0.0, 3.0))
        pids = [pid for _, pid in job.workers().values()]
        os.kill(rng.choice(pids), signal.SIGKILL)
    await_rows(pipeline, pipeline.sent)
    job.stop(timeout=PATIENCE_S)
    pipeline.check()
