"""The benchmark on real processes: what it counts is exact, and what is wrong is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay.bench.measuring import measure
from mainstay.bench.orders import orders
from mainstay.bench.running import PROCESSES, environment, observe, start
from mainstay.bench.workloads import Aggregated, ByBatch, ByRow, Paced, Workload
from mainstay.snapshot.object_storage import open_storage


@pytest.mark.parametrize("make", [ByRow, ByBatch, Aggregated])
def test_a_workload_is_counted_and_its_result_is_right(make: type[Workload]) -> None:
    found = measure(make(), PROCESSES, 0.5, every_s=0.2, warm_up_s=0.1)
    assert found.is_right
    assert found.window.records > 0
    assert found.window.seconds >= 0.5
    assert found.latency_ms is None


def test_latencies_are_measured_from_the_making_and_from_the_due_time() -> None:
    found = measure(Paced(), PROCESSES, 0.5, every_s=0.2, warm_up_s=0.1)
    assert found.is_right
    assert found.latency_ms is not None
    assert found.since_due_ms is not None
    assert 0 < found.latency_ms["p50"] <= found.since_due_ms["p50"]


def test_a_result_that_is_not_that_of_the_records_is_wrong(tmp_path: Path) -> None:
    directory, workload = str(tmp_path / "snapshots"), ByRow()
    env = environment(directory, every_s=0.2)
    workload.build(env)
    job = start(env, "bench", PROCESSES)
    observe(job, directory, 0.2, warm_up_s=0.0)
    job.cancel()
    storage = open_storage(directory)
    assert workload.is_right(storage, env)
    workload.orders = lambda first, count: orders(first + 1, count)
    assert not workload.is_right(storage, env)
    workload.orders = orders
    workload.sink.seen.popitem()
    workload.sink.seen[1, 0, workload.sink.last_epoch] = b"1"
    assert not workload.is_right(storage, env)
