"""Runs the demonstration; the exit code is 1 when the books do not balance."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from mainstay.api.environment import EMBEDDED, Environment
from mainstay.api.options import Restart, Snapshots
from mainstay.connectors.files.committed import read_committed
from mainstay.connectors.files.parquet_sink import ParquetSink
from mainstay.connectors.memory import Memory, Rows
from mainstay.demo.orders import SCHEMA, Orders, orders
from mainstay.demo.show import Screen, show_attempts, show_epochs
from mainstay.demo.totals import OUT, TOTALS, build
from mainstay.demo.verdict import Verdict, judge
from mainstay.drive.embedded import EmbeddedJob
from mainstay.runtime.status import EpochStatus
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
from mainstay.spelling import counted
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


def main(scale: Scale | None = None, out: TextIO = sys.stdout, *, embedded: bool = False) -> int:
    """Show everything; 0 when every order was counted exactly once."""
    scale = scale or Scale()
    screen = Screen(out)
    spark = EMBEDDED if embedded else _session(screen)
    with tempfile.TemporaryDirectory(prefix="mainstay-demo-") as directory:
        real = _real_time(screen, scale, Path(directory), spark)
    simulated = _what_if(screen, scale)
    return 0 if real and simulated else 1


def _session(screen: Screen) -> Any:
    """A local Spark session, started before the clock of the orders."""
    from mainstay.spark.launch.session import local_session

    screen.line("Starting Spark on this machine ...")
    session = local_session(workers=2)
    # What a killed worker makes Spark log is part of the show, but not of its text.
    session.sparkContext.setLogLevel("OFF")
    # The first job of a session takes seconds; it should not be the one that is shown.
    session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id long", barrier=True).collect()
    return session


# ---------------------------------------------------------------- in real time


def _real_time(screen: Screen, scale: Scale, directory: Path, spark: Any) -> bool:
    source = Orders(scale.orders, scale.orders / scale.seconds)
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
    _watch(screen, job, source, scale)
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
    return verdict.is_good


def _watch(screen: Screen, job: Any, source: Orders, scale: Scale) -> None:
    """Look at the job until it ends, and kill a worker half way."""
    story = _Story(screen, job, source)
    crash_at = source.opened + scale.seconds / 2
    while True:
        job.wait(GLANCE_S, progress=False)
        story.tell()
        if job.status in ("finished", "failed", "cancelled"):
            return
        has_epoch = any(record.status == EpochStatus.COMPLETE for record in job.snapshots())
        if not story.crashed and time.monotonic() >= crash_at and has_epoch:
            story.crash()


def _kill_worker(job: Any, number: int) -> str:
    """Kill a worker as nothing should be killed, and say which."""
    if isinstance(job, EmbeddedJob):
        job.crash_worker(number)
        return f"worker {number} is killed, with everything it held in memory"
    _, pid = job.workers()[number]
    os.kill(pid, signal.SIGKILL)
    return f"worker {number} is killed (kill -9 {pid}), with everything it held in memory"


class _Story:
    """Tells what is new about a job."""

    def __init__(self, screen: Screen, job: Any, source: Orders) -> None:
        self._screen = screen
        self._job = job
        self._source = source
        self._begun = 0
        self._ended = 0
        self._last_line = 0.0
        self.crashed = False

    def tell(self) -> None:
        for number, attempt in enumerate(self._job.attempts()):
            if number == self._begun:
                start = f"epoch {attempt.restored_from}" if attempt.restored_from else "empty state"
                self._line(f"attempt {attempt.attempt} starts from {start}")
                self._begun += 1
            if number == self._ended and attempt.reason:
                # Why, the warning of the job says.
                self._line(f"attempt {attempt.attempt} has ended")
                self._ended += 1
        text = self._progress()
        self._screen.progress(self._stamped(text))
        if time.monotonic() - self._last_line >= 1.0:
            self._line(text)

    def crash(self) -> None:
        self.crashed = True
        self._line(_kill_worker(self._job, 1))

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        self._screen.line(self._stamped(text))

    def _stamped(self, text: str) -> str:
        return f"{time.monotonic() - self._source.opened:5.1f} s  {text}"

    def _progress(self) -> str:
        complete = [
            record for record in self._job.snapshots() if record.status == EpochStatus.COMPLETE
        ]
        placed = self._source.splits * self._source.due(0, self._source.count)
        text = (
            f"{self._job.status}: {min(placed, self._source.count):,} orders placed, "
            f"{counted(len(complete), 'epoch')} complete"
        )
        if complete:
            text += f", the last one in {complete[-1].duration_s * 1e3:.0f} ms"
        return text


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


if __name__ == "__main__":
    sys.exit(main(embedded="--embedded" in sys.argv[1:]))
