"""Connected components on Spark, by a loop whose workers are killed at random."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstay as ms
from examples import connected_components
from mainstay.plan.planning import plan_of
from mainstay.snapshot.object_storage import open_storage
from mainstay.testing.inspect import committed_state
from tests.drive.ledger import await_until

pytestmark = pytest.mark.spark

WORKERS = 3


@pytest.fixture(autouse=True)
def the_job_travels_by_value() -> Iterator[None]:
    """Spark's Python processes cannot import the examples."""
    cloudpickle.register_pickle_by_value(connected_components)
    yield
    cloudpickle.unregister_pickle_by_value(connected_components)


def graph(edges: int, seed: int) -> pa.Table:
    """Many small components and a few long ones: chains are what takes rounds."""
    rng = np.random.default_rng(seed)
    nodes = edges
    near = rng.integers(0, nodes, edges)
    far = np.clip(near + rng.integers(-3, 4, edges), 0, nodes - 1)
    return pa.table({"a": near, "b": far})


def spread(spark: Any, path: Path, table: pa.Table, kills: int, patience_s: float) -> None:
    (path / "edges").mkdir()
    for part in range(6):
        rows = table.num_rows // 6 + 1
        pq.write_table(table.slice(part * rows, rows), path / "edges" / f"{part}.parquet")
    env = ms.Environment(
        spark=spark,
        parallelism=WORKERS,
        snapshots=ms.Snapshots(path / "snapshots", every="300ms"),
        restart=ms.Restart(max_failures=kills + 2, backoff="50ms"),
    )
    source = ms.connectors.Files(str(path / "edges" / "*.parquet"))
    connected_components.build(env, source, ms.connectors.ParquetSink(path / "labels"))
    job: Any = env.start("components")
    rng = random.Random(7)
    for attempt in range(1, kills + 1):
        await_until(
            lambda attempt=attempt: (
                job.status == "finished"
                or (len(job.attempts()) == attempt and len(job.workers()) == WORKERS)
            ),
            f"the workers of attempt {attempt} have come in",
        )
        if job.status == "finished":
            break
        threading.Event().wait(rng.uniform(0.2, 1.5))  # the moment is the random part
        pids = [pid for _, pid in job.workers().values()]
        if pids:
            os.kill(rng.choice(pids), signal.SIGKILL)
    assert job.wait(patience_s, progress=False) == "finished"
    assert len(job.attempts()) > 1, "nobody was killed in time"
    check(env, path, table)


def check(env: ms.Environment, path: Path, table: pa.Table) -> None:
    edges = zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)
    parts = networkx.connected_components(networkx.Graph(list(edges)))
    expected = {node: min(part) for part in parts for node in part}
    job = plan_of(env.graph())
    state = committed_state(open_storage(str(path / "snapshots")), job, "labels", "label")
    assert state == expected
    labels: dict[int, int] = {}
    written = ms.connectors.read_committed(path / "labels")
    for node, label in zip(written["node"].to_pylist(), written["label"].to_pylist(), strict=True):
        labels[node] = min(label, labels.get(node, label))
    assert labels == expected


def test_labels_are_those_of_networkx_whoever_is_killed(spark: Any, tmp_path: Path) -> None:
    spread(spark, tmp_path, graph(50_000, seed=1), kills=2, patience_s=600)


@pytest.mark.soak
def test_a_million_edges_with_ten_kills(spark: Any, tmp_path: Path) -> None:
    spread(spark, tmp_path, graph(1_000_000, seed=2), kills=10, patience_s=1200)
