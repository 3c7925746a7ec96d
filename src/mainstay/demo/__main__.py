"""Runs the demonstration; the exit code is 1 when the books do not balance."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from mainstay.api.environment import Environment
from mainstay.api.options import Restart, Snapshots
from mainstay.api.spark_setting import EMBEDDED
from mainstay.connectors.files.committed import read_committed
from mainstay.connectors.files.parquet_sink import ParquetSink
from mainstay.connectors.memory import Memory, Rows
from mainstay.demo.orders import SCHEMA, Orders, orders
from mainstay.demo.show import Screen, show_attempts, show_epochs
from mainstay.demo.story import Story
from mainstay.demo.totals import OUT, TOTALS, build
from mainstay.demo.verdict import Verdict, judge
from mainstay.errors import SparkSetupError
from mainstay.masking import masked
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from mainstay.spark.launch.masters import is_local_master
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import run

GLANCE_S = 0.1
BATCH = 8192


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is shown."""

    orders: int = 300_000
    seconds: float = 8.0
    epoch_every_s: float = 0.5
    seeds: int = 50
    simulated_orders: int = 100
    crashes: int = 8


def main(
    scale: Scale | None = None,
    out: TextIO = sys.stdout,
    *,
    embedded: bool = False,
    master: str | None = None,
    directory: str | None = None,
) -> int:
    """Show everything; 0 when every order was counted exactly once.

    ``master`` is one of Spark's, and ``directory`` a folder that all of its machines see.
    """
    scale = scale or Scale()
    screen = Screen(out)
    place = _place(embedded, master, directory)
    spark = EMBEDDED if embedded else _session(screen, master)
    with tempfile.TemporaryDirectory(prefix="mainstay-demo-", dir=place) as folder:
        real = _real_time(screen, scale, Path(folder), spark, is_far=place is not None)
    simulated = _what_if(screen, scale)
    return 0 if real and simulated else 1


def _place(embedded: bool, master: str | None, directory: str | None) -> str | None:
    """The folder that machines share; None where there is one machine only."""
    if embedded or master is None or is_local_master(master):
        return None
    if directory is None or not Path(directory).is_dir():
        raise SparkSetupError(
            f"the demonstration on {masked(master)} needs a folder that all machines of the "
            f"cluster see under one name, for snapshots and output: --directory PATH"
            + ("." if directory is None else f"; {directory!r} is none.")
        )
    return str(Path(directory).resolve())


def _session(screen: Screen, master: str | None) -> Any:
    """A Spark session, started before the clock of the orders."""
    from mainstay.spark.launch.cluster import is_of_connect
    from mainstay.spark.launch.session import own_session

    screen.line(f"Starting Spark {'on this machine' if master is None else masked(master)} ...")
    session = own_session(2, master)
    if is_of_connect(session):
        return session
    # What a killed worker makes Spark log is part of the show, but not of its text.
    session.sparkContext.setLogLevel("OFF")
    if is_local_master(str(session.sparkContext.master)):
        _warm_up(session)
    return session


def _warm_up(session: Any) -> None:
    """The first job of a session takes seconds; it should not be the one that is shown."""
    session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long", barrier=True).collect()


# ---------------------------------------------------------------- in real time


def _real_time(screen: Screen, scale: Scale, directory: Path, spark: Any, *, is_far: bool) -> bool:
    """``is_far``: workers may be on other machines."""
    folder = str(directory) if is_far else None
    source = Orders(scale.orders, scale.orders / scale.seconds, folder=folder)
    target = str(directory / "totals")
    env = Environment(
        spark=spark,
        parallelism=2,
        snapshots=Snapshots(str(directory / "snapshots"), every=scale.epoch_every_s),
        restart=Restart(max_failures=3, backoff="300ms"),
    )
    build(env, source, ParquetSink(target))
    place = "in this process" if spark == EMBEDDED else "on Spark"
    screen.line(
        f"{scale.orders:,} orders in {scale.seconds:g} s → a running total per customer → "
        f"Parquet; 2 workers {place}, a snapshot every {scale.epoch_every_s:g} s."
    )
    job = env.start("demo")
    story = _watch(screen, job, source, scale)
    screen.line()
    show_epochs(screen, job.snapshots())
    screen.line()
    show_attempts(screen, job)
    storage, spec = open_storage(str(directory / "snapshots")), env.plan()
    verdict = judge(
        (orders(n, min(n + BATCH, scale.orders)) for n in range(0, scale.orders, BATCH)),
        committed_state(storage, spec, TOTALS, "total"),
        committed_state(storage, spec, TOTALS, "count"),
        list(zip(*read_committed(target).to_pydict().values(), strict=True)),
    )
    screen.line()
    _show_verdict(screen, verdict)
    if not story.crashed:
        screen.line("✘ The job was over before a worker could be killed: nothing was shown.")
    return verdict.is_good and story.crashed


def _watch(screen: Screen, job: Any, source: Orders, scale: Scale) -> Story:
    """Look at the job until it ends, and kill a worker half way."""
    story = Story(screen, job, source)
    while True:
        job.wait(GLANCE_S, progress=False)
        story.tell()
        if job.status in ("finished", "failed", "cancelled"):
            return story
        has_epoch = any(record.status == EpochStatus.COMPLETE for record in job.snapshots())
        if not story.crashed and has_epoch and story.ran_s() >= scale.seconds / 2:
            story.crash()


def _show_verdict(screen: Screen, verdict: Verdict) -> None:
    summary = (
        f"{verdict.orders:,} orders of {verdict.customers:,} customers, "
        f"{verdict.revenue:,} in total"
    )
    if verdict.is_good:
        screen.line(f"✔ {summary}: state and output have every order exactly once.")
        return
    screen.line(f"✘ {summary}: the books do not balance.")
    for difference in verdict.differences:
        screen.line(f"  {difference}")


# ---------------------------------------------------------------- what if


def _what_if(screen: Screen, scale: Scale) -> bool:
    """The same job under the simulation: other crashes and other interleavings for every seed."""
    screen.line()
    began = time.monotonic()
    batch = orders(0, scale.simulated_orders)
    verdicts, attempts = [], 0
    for seed in range(scale.seeds):
        verdict, tried = _simulate(batch, seed, scale.crashes)
        verdicts.append(verdict)
        attempts += tried
        screen.progress(f"simulated {seed + 1} of {scale.seeds}")
    good = sum(verdict.is_good for verdict in verdicts)
    screen.line(
        f"{'✔' if good == scale.seeds else '✘'} What if it had crashed elsewhere? "
        f"{good} of {scale.seeds} simulated runs, {attempts} attempts in all, have every order "
        f"exactly once ({time.monotonic() - began:.1f} s)."
    )
    for seed, verdict in enumerate(verdicts):
        for difference in verdict.differences:
            screen.line(f"  seed {seed}: {difference}")
    return good == scale.seeds


def _simulate(batch: pa.RecordBatch, seed: int, crashes: int) -> tuple[Verdict, int]:
    values = list(zip(*batch.to_pydict().values(), strict=True))
    source = Rows(SCHEMA, values, splits=2, batch_rows=4)
    result = run(
        lambda env: build(env, source, Memory()), parallelism=2, seed=seed, crashes=crashes
    )
    verdict = judge(
        [batch],
        result.state(TOTALS, "total"),
        result.state(TOTALS, "count"),
        result.output(OUT),
    )
    last = read_history(result.storage).last_begin
    return verdict, 0 if last is None else last.attempt


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mainstay.demo", description=main.__doc__)
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--master")
    parser.add_argument("--directory")
    return parser.parse_args()


if __name__ == "__main__":
    asked = _asked()
    sys.exit(main(embedded=asked.embedded, master=asked.master, directory=asked.directory))
