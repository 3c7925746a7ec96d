"""W4: what snapshots cost a job, by the size of its state.

``cost`` looks at a real job's epochs. ``kept`` drives one worker without anything around it, in
windows that alternate between taking snapshots and not: what the two share cancels out of their
ratio. ``memory`` compares the state with a bare dictionary of the same content.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks.bench_worker import SOURCE_UID, BenchWorker, Counting, Endless
from benchmarks.ours.amount import Amount
from benchmarks.ours.epochs import epoch_costs
from benchmarks.ours.result import Result
from benchmarks.ours.setting import Setting
from benchmarks.ours.visits import Visits
from benchmarks.report import Table, count, median, millis
from mainstay.api.environment import Environment
from mainstay.bench.totals import TOTALS_SCHEMA, RunningTotal
from mainstay.bench.workloads import TOTALS
from mainstay.drive.process import settle_process
from mainstay.runtime.messages import Figures
from mainstay.snapshot.object_storage import open_storage

PAIRS = 10
REFERENCE = 100_000
"""The size that the throughput of the others is compared with."""


def price(setting: Setting, amount: Amount) -> Result:
    return VARIANTS[setting.variant](setting, amount)


# ---------------------------------------------------------------- a job's epochs


def _cost(setting: Setting, amount: Amount) -> Result:
    table = Table(
        "Snapshots of a job, by the size of its state",
        ["keys", "sync (ms)", "async (ms)", "alignment (ms)", "total (ms)", "bytes", "records/s"],
        f"W1 process, 2 workers ({setting.place}), a snapshot every second under full load. Of "
        "each epoch the slowest subtask; medians over the epochs.",
    )
    records, seconds, verified = 0, 0.0, True
    for pages in amount.sizes:
        found = epoch_costs(setting.place, amount.seconds, pages)
        table.add(
            count(pages),
            millis(found.slowest("sync_s")),
            millis(found.slowest("async_s")),
            millis(found.slowest("alignment_s")),
            millis(found.total_s),
            count(found.size_bytes),
            count(found.window.records_per_s),
        )
        records += found.window.records
        seconds += found.window.seconds
        verified = verified and found.is_right
    return Result("W4", setting.name, records, seconds, verified, table=table)


# ---------------------------------------------------------------- throughput kept


def _kept(setting: Setting, amount: Amount) -> Result:
    settle_process()
    table = Table(
        "Throughput kept while snapshots are taken",
        [
            *("keys", "without (records/s)", "with (records/s)", "kept", "of 100 k keys"),
            *("sync (ms)", "async (ms)", "longest gap without (ms)", "with (ms)"),
        ],
        f"One worker in this process; {PAIRS} pairs of windows, one without a snapshot and one "
        "with, medians. *kept* is the median of the pairs' ratios; *of 100 k keys* compares the "
        "throughput without snapshots.",
    )
    window_s = max(0.2, amount.seconds / (2 * PAIRS))
    cases = {pages: _alternate(pages, window_s) for pages in amount.sizes}
    reference = cases.get(REFERENCE)
    for pages, case in cases.items():
        table.add(
            count(pages),
            count(median(case.without)),
            count(median(case.during)),
            f"{case.kept:.1%}",
            f"{median(case.without) / median(reference.without):.0%}" if reference else "",
            millis(median([each.sync_s for each in case.figures])),
            millis(median([each.async_s for each in case.figures])),
            millis(median(case.quiet_gaps)),
            millis(median(case.busy_gaps)),
        )
    records = sum(case.records for case in cases.values())
    seconds = sum(case.seconds for case in cases.values())
    return Result("W4", setting.name, records, seconds, None, table=table)


class Alternation:
    """Pairs of windows, and what was measured in each."""

    def __init__(self) -> None:
        self.without: list[float] = []
        self.during: list[float] = []
        self.quiet_gaps: list[float] = []
        self.busy_gaps: list[float] = []
        self.figures: list[Figures] = []
        self.records = 0
        self.seconds = 0.0

    @property
    def kept(self) -> float:
        pairs = zip(self.without, self.during, strict=True)
        return median([during / without for without, during in pairs])

    def measure(self, sink: Counting, run: Callable[[], None], rates: list[float]) -> None:
        """Count at the sink: a source gives in steps that are large beside a window."""
        before, began = sink.rows, time.perf_counter()
        run()
        elapsed_s = time.perf_counter() - began
        rates.append((sink.rows - before) / elapsed_s)
        self.records += sink.rows - before
        self.seconds += elapsed_s


def totals_worker(source: Endless, sink: Counting, directory: str) -> BenchWorker:
    """The only worker of W1, which this process drives."""
    env = Environment(parallelism=1)
    keyed = env.source(source, uid=SOURCE_UID).key_by("key")
    keyed.process(RunningTotal(), TOTALS_SCHEMA, uid=TOTALS).sink(sink, uid="out")
    return BenchWorker(env.plan(), open_storage(directory))


def _alternate(pages: int, window_s: float) -> Alternation:
    found = Alternation()
    source, sink = Endless(Visits(pages)(0, pages)), Counting()
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        worker = totals_worker(source, sink, directory)
        worker.run_until(lambda: sink.rows >= pages)
        _take_epoch(worker, window_s, found)
        found.figures.clear()
        for _ in range(PAIRS):
            found.measure(sink, lambda: _run(worker, window_s, sink), found.without)
            found.quiet_gaps.append(max(worker.gaps))
            found.measure(sink, lambda: _take_epoch(worker, window_s, found), found.during)
        worker.close()
    return found


def _run(worker: BenchWorker, window_s: float, sink: Counting) -> None:
    """A window without a snapshot. One in which no row arrived would say nothing of the rate."""
    end, before = time.perf_counter() + window_s, sink.rows
    worker.run_until(lambda: time.perf_counter() >= end and sink.rows > before)


def _take_epoch(worker: BenchWorker, window_s: float, found: Alternation) -> None:
    """A window that holds the whole of a snapshot, however long that takes."""
    end = time.perf_counter() + window_s
    worker.trigger()
    worker.run_until(lambda: worker.is_acknowledged)
    longest = max(worker.gaps)
    found.figures.append(max(worker.complete(), key=lambda each: each.size_bytes))
    worker.run_until(lambda: time.perf_counter() >= end)
    found.busy_gaps.append(max([longest, *worker.gaps]))


# ---------------------------------------------------------------- memory


def _memory(setting: Setting, amount: Amount) -> Result:
    table = Table(
        "Memory of the state",
        ["keys", "bare dict (MB)", "state (MB)", "of the dict"],
        "What a fresh process grows by when it holds as many entries of long to long: in a "
        "dictionary, and in the state of a worker after a snapshot.",
    )
    for pages in amount.keys or ((1_000_000, 5_000_000) if amount.is_large else (1_000_000,)):
        bare, state = (_grown(kind, pages) for kind in ("bare", "state"))
        table.add(count(pages), f"{bare / 1e6:.0f}", f"{state / 1e6:.0f}", f"{state / bare:.2f}")
    return Result("W4", setting.name, 0, 0.0, None, table=table)


def _grown(kind: str, pages: int) -> int:
    command = [sys.executable, "-m", "benchmarks.ours.memory", kind, str(pages)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


VARIANTS = {"cost": _cost, "kept": _kept, "memory": _memory}
