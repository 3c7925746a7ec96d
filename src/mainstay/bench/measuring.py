"""One workload, run once in a place: its rate, its latencies, and whether its result is right."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mainstay.bench.running import WARM_UP_S, Window, environment, observe, start
from mainstay.bench.workloads import Paced, Workload, percentiles_ms
from mainstay.drive.remote_job import RemoteJob
from mainstay.snapshot.object_storage import open_storage

Mark = Callable[[RemoteJob], None]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run came to. Latencies are since a record was made, and since it was due."""

    window: Window
    is_right: bool
    latency_ms: dict[str, float] | None = None
    since_due_ms: dict[str, float] | None = None

    @property
    def records_per_s(self) -> float:
        return self.window.records_per_s


def measure(
    workload: Workload,
    place: str,
    seconds: float,
    *,
    parallelism: int = 2,
    every_s: float = 1.0,
    warm_up_s: float = WARM_UP_S,
    mark: Mark | None = None,
) -> Measurement:
    """Run a workload until it is warm, then for some seconds more; check what it left.

    ``mark`` is given the job at both ends of what is measured.
    """
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        env = environment(directory, parallelism=parallelism, every_s=every_s)
        workload.build(env)
        job = start(env, "bench", place)
        at_ends = None if mark is None else partial(mark, job)
        try:
            window = observe(job, directory, seconds, warm_up_s=warm_up_s, mark=at_ends)
        finally:
            job.cancel()
        is_right = workload.is_right(open_storage(directory), env)
    return Measurement(window, is_right, *_latencies(workload, window))


def _latencies(
    workload: Workload, window: Window
) -> tuple[dict[str, float] | None, dict[str, float] | None]:
    if not isinstance(workload, Paced):
        return None, None
    made, due = workload.ages_ms(window.first.epoch, window.last.epoch)
    return percentiles_ms(made), percentiles_ms(due)
