"""Jobs on Spark whose workers and executors are killed, frozen and failing; exact results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cloudpickle
import psutil
import pytest

import tests.drive.ledger as ledger_module
from mainstay.drive.remote_job import Patience, RemoteJob
from mainstay.errors import SlotsError, UserFunctionError
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from tests.drive.ledger import PATIENCE_S, LedgerJob, Stumbling, await_attempt, await_until
from tests.services.standalone import StandaloneCluster

pytestmark = pytest.mark.spark

WORKERS = 3
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def the_job_travels_by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the tests."""
    cloudpickle.register_pickle_by_value(ledger_module)
    yield
    cloudpickle.unregister_pickle_by_value(ledger_module)


Start = Callable[..., RemoteJob]


@pytest.fixture
def start(spark: Any) -> Iterator[Start]:
    """Starts a ledger on the session; what still runs at the end of a test is cancelled."""
    from mainstay.spark.launch.cluster import cluster_of
    from mainstay.spark.launch.launcher import SparkLauncher

    jobs: list[RemoteJob] = []
    # Jobs that other tests of the process share may have threads of their own.
    others = set(threading.enumerate())

    def run(ledger: LedgerJob, patience: Patience | None = None, **options: Any) -> RemoteJob:
        jobs.append(ledger.start(SparkLauncher(cluster_of(spark), "ledger"), patience, **options))
        return jobs[-1]

    yield run
    for job in jobs:
        job.cancel()
    left = set(threading.enumerate()) - others
    assert not [thread for thread in left if thread.name.startswith("mainstay-")]


def test_two_workers_killed_in_one_run(start: Start, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=15_000, per_second=5_000.0)
    job = start(ledger)
    for attempt in (1, 2):
        os.kill(await_attempt(job, attempt, WORKERS)[attempt], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert len(job.attempts()) == 3
    ledger.check()


def test_an_exception_arrives_as_the_function_raised_it(start: Start, tmp_path: Path) -> None:
    job = start(LedgerJob(tmp_path, function=Stumbling(at=1_000)), max_failures=0)
    with pytest.raises(UserFunctionError, match="no shelf for 1000") as raised:
        job.wait(PATIENCE_S)
    assert raised.value.uid == "ledger"
    assert 'raise LookupError(f"there is no shelf for {row.id}")' in raised.value.user_traceback


def test_a_frozen_worker_that_goes_on_harms_nothing(start: Start, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=20_000, per_second=5_000.0)
    job = start(ledger, Patience(silence_s=2.0))
    frozen = psutil.Process(await_attempt(job, 1, WORKERS)[0])
    frozen.suspend()
    await_attempt(job, 2, WORKERS)
    if frozen.is_running():
        frozen.resume()
    assert job.wait(PATIENCE_S) == "finished"
    assert "was not heard of for 2.0 s" in job.attempts()[0].reason
    ledger.check()


def test_a_worker_that_dies_is_named_as_the_reason(start: Start, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=4_000, workers=1)
    job = start(ledger)
    os.kill(await_attempt(job, 1, 1)[0], signal.SIGKILL)
    assert job.wait(PATIENCE_S) == "finished"
    assert "Python worker exited unexpectedly (crashed)" in job.attempts()[0].reason
    ledger.check()


def test_a_process_of_spark_that_has_been_a_worker_is_as_it_was(
    spark: Any, start: Start, tmp_path: Path
) -> None:
    def look(batches: Any) -> Any:
        import gc
        import os
        import sys
        import threading

        import psutil
        import pyarrow as pa

        for _ in batches:
            continue
        threads = sorted(thread.name for thread in threading.enumerate())
        sockets = [c.laddr for c in psutil.Process().net_connections("unix") if c.laddr]
        # How many are frozen changes by itself: some of them are let go of.
        found = (gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count() > 0)
        text = repr((*found, threads, [s for s in sockets if "mainstay" in str(s)]))
        yield pa.record_batch({"pid": [os.getpid()], "text": [text]})

    def seen() -> dict[int, str]:
        rows = spark.range(0, 3, 1, 3).mapInArrow(look, "pid long, text string").collect()
        return {row.pid: row.text for row in rows}

    fresh = set(seen().values())
    job = start(LedgerJob(tmp_path, count=2_000))
    workers = await_until(job.workers, "the workers have come in")
    assert job.wait(PATIENCE_S) == "finished"
    pids = {pid for _, pid in workers.values()}
    used = await_until(
        lambda: [text for pid, text in seen().items() if pid in pids],
        "Spark uses a process again",
    )
    assert set(used) <= fresh


def is_linked(pid: int) -> bool:
    """Whether a process is a worker. Spark may keep one that has been, for other tasks."""
    try:
        return any("mainstay" in str(c.laddr) for c in psutil.Process(pid).net_connections("unix"))
    except psutil.NoSuchProcess:
        return False


def test_cancelling_frees_the_slots_and_ends_the_workers(
    spark: Any, start: Start, tmp_path: Path
) -> None:
    from mainstay.spark.launch.classic_cluster import ClassicCluster

    job = start(LedgerJob(tmp_path, count=10_000_000))
    pids = await_attempt(job, 1, WORKERS)
    assert all(map(is_linked, pids.values()))
    job.cancel()
    await_until(
        lambda: not any(is_linked(pid) for pid in pids.values()), "the links are closed", 10
    )
    slots = ClassicCluster(spark).slots
    total = slots().total
    await_until(lambda: slots() == (total, total), "all slots are free", 10)


def test_too_few_slots_are_refused_with_both_numbers(spark: Any) -> None:
    from mainstay.spark.launch.classic_cluster import ClassicCluster

    cluster = ClassicCluster(spark)
    total = cluster.slots().total
    cluster.check(total)
    with pytest.raises(SlotsError, match=rf"needs {total + 1} free slots .* has {total}, of which"):
        cluster.check(total + 1)


@pytest.mark.soak
def test_fifty_workers_killed_at_random_times(start: Start, tmp_path: Path) -> None:
    rng = random.Random(50)
    ledger = LedgerJob(tmp_path, count=400_000, per_second=4_000.0)
    job = start(ledger)
    for attempt in range(1, 51):
        await_until(
            lambda attempt=attempt: (
                len(job.attempts()) == attempt and len(job.workers()) == WORKERS
            ),
            f"the workers of attempt {attempt} have come in",
        )
        threading.Event().wait(rng.uniform(0.0, 3.0))
        os.kill(rng.choice([pid for _, pid in job.workers().values()]), signal.SIGKILL)
    assert job.wait(600) == "finished"
    assert len(job.attempts()) == 51
    ledger.check()


# ---------------------------------------------------------------- a cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    with StandaloneCluster(tmp_path) as standalone:
        yield standalone.master


def executors(folder: Path) -> list[psutil.Process]:
    """The executor JVMs below this process that run in a folder: other clusters have some, too."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            is_executor = (
                "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline()
            )
            if is_executor and folder in Path(process.cwd()).parents:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def test_an_executor_of_a_cluster_that_is_killed_is_survived(cluster: str, tmp_path: Path) -> None:
    ledger = LedgerJob(tmp_path, count=9_000)
    command = [sys.executable, "-m", "tests.spark.cluster_driver", cluster, str(tmp_path)]
    driver = subprocess.Popen(
        [*command, str(ledger.count), "3000"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with ExitStack() as closing:
        closing.callback(driver.communicate)
        closing.callback(driver.kill)
        storage = open_storage(ledger.directory)

        def epochs() -> bool:
            latest = read_history(storage).latest_epoch
            return driver.poll() is not None or (latest is not None and latest.epoch >= 2)

        await_until(epochs, "two epochs are complete", 150)
        before = executors(tmp_path)
        assert len(before) == 2
        before[0].kill()
        output, _ = driver.communicate(timeout=150)
        assert output.strip() == "finished 2"
    ledger.check()
