"""Runs the demonstration; the exit code is 1 when the books do not balance."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TextIO

import pyarrow as pa

from mainstay.api.environment import Environment
from mainstay.api.options import Restart, Snapshots
from mainstay.connectors.memory import Memory, Rows
from mainstay.demo.ledger import Ledger
from mainstay.demo.orders import SCHEMA, Orders, orders
from mainstay.demo.show import Screen, show_attempts, show_epochs
from mainstay.demo.totals import OUT, TOTALS, build
from mainstay.demo.verdict import Verdict, judge
from mainstay.drive.embedded import EmbeddedJob, start_embedded
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.object_storage import open_storage
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


def main(scale: Scale | None = None, out: TextIO = sys.stdout) -> int:
    """Show everything; 0 when every order was counted exactly once."""
    scale = scale or Scale()
    screen = Screen(out)
    with tempfile.TemporaryDirectory(prefix="mainstay-demo-") as directory:
        real = _real_time(screen, scale, directory)
    simulated = _what_if(screen, scale)
    return 0 if real and simulated else 1


# ---------------------------------------------------------------- in real time


def _real_time(screen: Screen, scale: Scale, directory: str) -> bool:
    source, sink = Orders(scale.orders, scale.orders / scale.seconds), Ledger()
    snapshots = Snapshots(directory, every=scale.epoch_every_s)
    env = Environment(parallelism=2, snapshots=snapshots, restart=Restart(backoff="300ms"))
    build(env, source, sink)
    spec = env.plan()
    screen.line(
        f"{scale.orders:,} orders in {scale.seconds:g} s → a running total per customer → sink; "
        f"2 workers, a snapshot every {scale.epoch_every_s:g} s."
    )
    job = start_embedded(
        "demo",
        spec,
        directory=directory,
        snapshots=snapshots.parsed(),
        restart=env.restart.parsed(),
        restore=env.restore,
    )
    _watch(screen, job, source, scale)
    screen.line()
    show_epochs(screen, job.snapshots())
    screen.line()
    show_attempts(screen, job)
    storage = open_storage(directory)
    verdict = judge(
        (orders(n, min(n + BATCH, scale.orders)) for n in range(0, scale.orders, BATCH)),
        committed_state(storage, spec, TOTALS, "total"),
        committed_state(storage, spec, TOTALS, "count"),
        list(sink.rows()),
    )
    screen.line()
    _show_verdict(screen, verdict)
    return verdict.is_good


def _watch(screen: Screen, job: EmbeddedJob, source: Orders, scale: Scale) -> None:
    """Look at the job until it ends, and kill a worker half way."""
    story = _Story(screen, job, source)
    crash_at = source.opened + scale.seconds / 2
    while True:
        job.wait(GLANCE_S)
        story.tell()
        if job.status in ("finished", "failed", "cancelled"):
            return
        if not story.crashed and time.monotonic() >= crash_at:
            story.crash()


class _Story:
    """Tells what is new about a job."""

    def __init__(self, screen: Screen, job: EmbeddedJob, source: Orders) -> None:
        self._screen = screen
        self._job = job
        self._source = source
        self._attempts = 0
        self._last_line = 0.0
        self.crashed = False

    def tell(self) -> None:
        for attempt in self._job.attempts()[self._attempts :]:
            start = f"from epoch {attempt.restored_from}" if attempt.restored_from else "from empty"
            self._line(f"attempt {attempt.attempt} starts {start}")
            self._attempts += 1
        text = self._progress()
        self._screen.progress(self._stamped(text))
        if time.monotonic() - self._last_line >= 1.0:
            self._line(text)

    def crash(self) -> None:
        self.crashed = True
        self._line("worker 1 is killed, with everything it held in memory")
        self._job.crash_worker(1)

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        self._screen.line(self._stamped(text))

    def _stamped(self, text: str) -> str:
        return f"{time.monotonic() - self._source.opened:5.1f} s  {text}"

    def _progress(self) -> str:
        complete = [record for record in self._job.snapshots() if record.status == "complete"]
        placed = self._source.splits * self._source.due(0, self._source.count)
        text = (
            f"{self._job.status}: {min(placed, self._source.count):,} orders placed, "
            f"{len(complete)} epochs complete"
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
    sys.exit(main())
