"""W1, W2, W3, W6 and how W1 scales: one job, run until it is warm and then for a while."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from benchmarks.ours.amount import Amount
from benchmarks.ours.result import Result, of_measurement
from benchmarks.ours.setting import Setting
from benchmarks.ours.wordcount import Words, WordsAggregated, WordsByBatch
from benchmarks.report import Table, count
from benchmarks.workloads import RATE_PER_S, WORDS_PER_LINE
from mainstay.bench.measuring import measure
from mainstay.bench.running import WARM_UP_S
from mainstay.bench.workloads import (
    Aggregated,
    ByBatch,
    ByRow,
    Compiled,
    Paced,
    PacedCompiled,
    Workload,
)
from mainstay.drive.remote_job import RemoteJob

W1: dict[str, Callable[[], Workload]] = {
    "process": ByRow,
    "process_batches": ByBatch,
    "compiled": Compiled,
}
W2: dict[str, Callable[[], Workload]] = {"aggregate": Aggregated}
W3: dict[str, Callable[[], Workload]] = {
    "process": lambda: Paced(records_per_s=RATE_PER_S),
    "compiled": lambda: PacedCompiled(records_per_s=RATE_PER_S),
}
W6: dict[str, Callable[[], Workload]] = {
    "process": Words,
    "batches": WordsByBatch,
    "aggregate": WordsAggregated,
}

WARM_UP = f"counted between two epochs, the first begun {WARM_UP_S:g} s after the workers"


def throughput(setting: Setting, amount: Amount) -> Result:
    """W1."""
    found = measure(W1[setting.variant](), setting.place, amount.seconds)
    return of_measurement("W1", setting.name, found, WARM_UP)


def aggregation(setting: Setting, amount: Amount) -> Result:
    """W2."""
    found = measure(W2[setting.variant](), setting.place, amount.seconds)
    return of_measurement("W2", setting.name, found, WARM_UP)


def latency(setting: Setting, amount: Amount) -> Result:
    """W3. Records are stamped when they are made, which is when the source is polled."""
    found = measure(W3[setting.variant](), setting.place, amount.seconds)
    due = ", ".join(f"{name} {value:.1f}" for name, value in (found.since_due_ms or {}).items())
    note = f"{WARM_UP}; since a record was due by its pace (ms): {due}"
    return of_measurement("W3", setting.name, found, note)


def wordcount(setting: Setting, amount: Amount) -> Result:
    """W6. A record is a word."""
    found = measure(W6[setting.variant](), setting.place, amount.seconds)
    return of_measurement("W6", setting.name, found, WARM_UP, factor=WORDS_PER_LINE)


def scaling(setting: Setting, amount: Amount) -> Result:
    """Records for each second of the workers' processors, with two workers and with one."""
    table = Table(
        "Scaling of W1 process",
        ["workers", "records/s", "CPU s of the workers", "records per CPU s", "of one worker"],
        "A share of 100 % means that the second worker costs as much as the first and no more.",
    )
    alone: float | None = None
    for workers in (1, 2):
        used: list[float] = []

        def mark(job: RemoteJob, used: list[float] = used) -> None:
            used.append(_cpu_s(job))

        found = measure(ByRow(), setting.place, amount.seconds, parallelism=workers, mark=mark)
        cpu_s = used[-1] - used[0]
        per_cpu_s = found.window.records / cpu_s
        alone = alone or per_cpu_s
        table.add(
            workers,
            count(found.records_per_s),
            f"{cpu_s:.1f}",
            count(per_cpu_s),
            f"{per_cpu_s / alone:.0%}",
        )
    window = found.window
    return Result(
        "scaling",
        setting.name,
        window.records,
        window.seconds,
        found.is_right,
        note=WARM_UP,
        table=table,
    )


def _cpu_s(job: RemoteJob) -> float:
    """What the processes of the workers have used so far, threads included."""
    times = [psutil.Process(pid).cpu_times() for _, pid in job.workers().values()]
    return sum(each.user + each.system for each in times)
