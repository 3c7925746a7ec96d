"""W5: how long a job stands still, by the size of its state.

``kill`` ends a worker with SIGKILL; ``rescale`` stops the job and starts it from its last epoch
with another number of workers.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time

from benchmarks.ours.amount import Amount
from benchmarks.ours.result import Result
from benchmarks.ours.setting import Setting
from benchmarks.ours.visits import PageTotals, checked, loaded_job
from benchmarks.report import Table, count, median, millis
from mainstay.bench.running import await_epoch, await_true, complete_epochs, environment, start
from mainstay.drive.remote_job import RemoteJob
from mainstay.runtime.status import Recovery

KILLS = 3
STEPS = (3, 2, 1)
"""The parallelism after each restart of a job that began with two workers."""


def downtime(setting: Setting, amount: Amount) -> Result:
    return VARIANTS[setting.variant](setting, amount)


# ---------------------------------------------------------------- a killed worker


def _kill(setting: Setting, amount: Amount) -> Result:
    table = Table(
        "Recovery after a worker is killed",
        ["keys", "noticed (ms)", "wait (ms)", "relaunch (ms)", "restore (ms)", "total (ms)"],
        f"2 workers ({setting.place}), one of them ended by SIGKILL under full load; medians of "
        f"{KILLS} kills. *wait* is what the restart strategy asks for.",
    )
    verified, began = True, time.time()
    for pages in amount.sizes:
        found, is_right = _recoveries(pages, setting.place)
        verified = verified and is_right
        parts = [
            [recovery.failed_at - killed_at for killed_at, recovery in found],
            [recovery.wait_s for _, recovery in found],
            [recovery.relaunch_s for _, recovery in found],
            [recovery.restore_s for _, recovery in found],
            [recovery.running_at - killed_at for killed_at, recovery in found],
        ]
        table.add(count(pages), *(millis(median(part)) for part in parts))
    return Result("W5", setting.name, 0, time.time() - began, verified, table=table)


def _recoveries(pages: int, place: str) -> tuple[list[tuple[float, Recovery]], bool]:
    workload, killed = PageTotals(pages), []
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        with loaded_job(workload, directory, place) as (job, env):
            for number in range(KILLS):
                killed.append(_kill_worker(job, number))
            recoveries = job.recoveries()
        return list(zip(killed, recoveries, strict=True)), checked(workload, directory, env)


def _kill_worker(job: RemoteJob, number: int) -> float:
    """Kill a worker, and wait until the job has recovered and taken an epoch."""
    workers = job.workers()
    _, pid = workers[number % len(workers)]
    killed_at = time.time()
    os.kill(pid, signal.SIGKILL)
    await_true(job, lambda: len(job.recoveries()) > number, "the recovery")
    await_epoch(job, job.recoveries()[number].running_at)
    return killed_at


# ---------------------------------------------------------------- another parallelism


def _rescale(setting: Setting, amount: Amount) -> Result:
    table = Table(
        "Rescaling: stop, and start with another number of workers",
        ["keys", "workers", "stop (ms)", "start to running (ms)", "to the next epoch (ms)"],
        f'({setting.place}) From the call of start() with restore="latest" until all workers '
        "have their state, and until the first epoch after it is complete.",
    )
    verified, began = True, time.time()
    for pages in amount.sizes:
        verified = _rescaled(pages, setting.place, table) and verified
    return Result("W5", setting.name, 0, time.time() - began, verified, table=table)


def _rescaled(pages: int, place: str, table: Table) -> bool:
    workload = PageTotals(pages)
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        with loaded_job(workload, directory, place) as (job, env):
            workers, stop_s = 2, _stopped(job)
        for parallelism in STEPS:
            env = environment(directory, parallelism=parallelism, restore="latest")
            workload = PageTotals(pages)
            workload.build(env)
            began = time.monotonic()
            job = start(env, "bench", place)
            try:
                await_true(job, lambda job=job: job.status == "running", "the start")
                running_s = time.monotonic() - began
                await_true(job, lambda job=job: bool(complete_epochs(job)), "an epoch")
                epoch_s = time.monotonic() - began
            finally:
                next_stop_s = _stopped(job)
            step = f"{workers} → {parallelism}"
            table.add(count(pages), step, millis(stop_s), millis(running_s), millis(epoch_s))
            workers, stop_s = parallelism, next_stop_s
        # The sink of the last job has seen the last job's rows only; state holds all of them.
        workload.emits_every_record = False
        return checked(workload, directory, env)


def _stopped(job: RemoteJob) -> float:
    began = time.monotonic()
    job.cancel()
    return time.monotonic() - began


VARIANTS = {"kill": _kill, "rescale": _rescale}
