"""W7: the figures of the paper in their shape.

Total snapshot time against the size of the state; alignment against size, parallelism and number
of shuffles; pipelined snapshots against those that stop the world; throughput by interval.
"""

from __future__ import annotations

from benchmarks.ours.amount import Amount
from benchmarks.ours.epochs import EpochCosts, epoch_costs
from benchmarks.ours.result import Result
from benchmarks.ours.setting import Setting
from benchmarks.ours.stop_the_world import Worlds
from benchmarks.report import Table, count, median, millis
from mainstay.bench.measuring import measure
from mainstay.bench.workloads import ByRow
from mainstay.drive.process import settle_process

PAGES = 100_000
"""The size of the state where something else is varied."""
INTERVALS_S = (0.25, 1.0, 4.0)
PARALLELISMS = (1, 2, 4)
SHUFFLES = (1, 2, 4)


def figure(setting: Setting, amount: Amount) -> Result:
    return VARIANTS[setting.variant](setting, amount)


# ---------------------------------------------------------------- epochs of jobs


def _alignment(setting: Setting, amount: Amount) -> Result:
    """Total time and alignment, as size, parallelism and shuffles vary one at a time."""
    table = Table(
        "Snapshot time and alignment",
        ["keys", "workers", "shuffles", "total (ms)", "alignment (ms)", "longest alignment (ms)"],
        f"A snapshot every second under full load ({setting.place}). Of each epoch the slowest "
        "subtask; medians over the epochs, and the longest of all.",
    )
    cases = [
        *((pages, 2, 1) for pages in amount.sizes),
        *((PAGES, workers, 1) for workers in PARALLELISMS),
        *((PAGES, 2, shuffles) for shuffles in SHUFFLES),
    ]
    found: dict[tuple[int, int, int], EpochCosts] = {}
    for pages, workers, shuffles in dict.fromkeys(cases):
        costs = epoch_costs(
            setting.place, amount.seconds, pages, shuffles=shuffles, parallelism=workers
        )
        found[pages, workers, shuffles] = costs
        table.add(
            count(pages),
            workers,
            shuffles,
            millis(costs.total_s),
            millis(costs.slowest("alignment_s")),
            millis(costs.slowest("alignment_s", max)),
        )
    records = sum(costs.window.records for costs in found.values())
    seconds = sum(costs.window.seconds for costs in found.values())
    verified = all(costs.is_right for costs in found.values())
    return Result("W7", setting.name, records, seconds, verified, table=table)


def _interval(setting: Setting, amount: Amount) -> Result:
    table = Table(
        "Throughput by snapshot interval",
        ["interval (s)", "records/s", "of none", "epochs"],
        f"W1 process, 2 workers ({setting.place}). *none* has no snapshot but the two that begin "
        "and end what is counted.",
    )
    runs = {"none": amount.seconds, **{f"{each:g}": each for each in INTERVALS_S}}
    found = {
        name: measure(ByRow(), setting.place, max(amount.seconds, every_s), every_s=every_s)
        for name, every_s in runs.items()
    }
    for name, measured in found.items():
        share = measured.records_per_s / found["none"].records_per_s
        epochs = len(measured.window.epochs)
        table.add(name, count(measured.records_per_s), f"{share:.1%}", epochs)
    records = sum(measured.window.records for measured in found.values())
    seconds = sum(measured.window.seconds for measured in found.values())
    verified = all(measured.is_right for measured in found.values())
    return Result("W7", setting.name, records, seconds, verified, table=table)


# ---------------------------------------------------------------- against stopping the world


def _stop_the_world(setting: Setting, amount: Amount) -> Result:
    settle_process()
    table = Table(
        "Pipelined snapshots and snapshots that stop the world",
        ["keys", "snapshots", "records/s", "of none", "stands still (ms)", "total (ms)"],
        "One worker in this process, a snapshot every second. The baseline pauses the sources, "
        "drains, snapshots, and resumes when the snapshot is durable.",
    )
    records, seconds = 0.0, 0.0
    for pages in amount.sizes:
        with Worlds(pages) as world:
            kinds = {"none": None, "pipelined": world.pipelined, "stopping": world.stopping}
            plain: float | None = None
            for name, snapshot in kinds.items():
                rate = world.rate(amount.seconds, 1.0, snapshot)
                plain = plain or rate
                records += rate * amount.seconds
                seconds += amount.seconds
                table.add(
                    count(pages),
                    name,
                    count(rate),
                    f"{rate / plain:.1%}",
                    millis(median(world.stopped_s)) if snapshot else "",
                    millis(median(world.total_s)) if snapshot else "",
                )
    return Result("W7", setting.name, round(records), seconds, None, table=table)


VARIANTS = {
    "alignment": _alignment,
    "interval": _interval,
    "stop_the_world": _stop_the_world,
}
