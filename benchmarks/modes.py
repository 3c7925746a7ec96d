"""The modes under backpressure: how long an epoch takes, and what a crash does to the results.

A job's function takes its time over every row, so the queues before it are full. Evenly spread, and
with most rows for one key, so that one of two subtasks has nearly all the work.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mainstay as ms
from benchmarks.picture import panels, save
from benchmarks.report import Size, Table, count, median, millis
from mainstay.bench.running import await_true, complete_epochs, start
from mainstay.connectors import Generate, Memory
from mainstay.testing import rows, run

ROW_S = 0.0005
"""What the slow function takes for a row."""
EPOCHS = 8
_COLOUR = "#c0392b"
SEEDS = 20
MODES = {
    "exactly_once": "0s",
    "unaligned": "0s",
    "unaligned after 1 s": "1s",
    "at_least_once": "0s",
}


class Slow(ms.KeyedProcess):
    seen = ms.ValueState("long")

    def process(self, row: Any, ctx: Any) -> None:
        until = time.perf_counter() + ROW_S
        self.seen.update((self.seen.get() or 0) + 1)
        while time.perf_counter() < until:
            continue


class Seen(ms.KeyedProcess):
    seen = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row: Any, ctx: Any) -> None:
        self.seen.add(1)


def _keys(is_skewed: bool, first: int, amount: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + amount, dtype=np.int64)
    keys = np.where(numbers % 10 < 9, 0, numbers) if is_skewed else numbers
    return pa.record_batch({"key": pa.array(keys % 1000)})


def measure(size: Size) -> Iterator[Table]:
    yield _epochs(size)
    yield _duplicates(size)


def draw(tables: Sequence[Table], path: Path) -> None:
    """The report as a picture: what an epoch takes, what of it is alignment, what counts twice."""
    epochs, twice = tables
    figure, (total, aligning, doubled) = panels(path, [2.6, 2.6, 1.4])
    kinds = zip(epochs.cells("mode"), epochs.cells("keys"), strict=True)
    names = [f"{mode}, {keys}" for mode, keys in kinds]
    for axis, column, title in (
        (total, "total (ms)", "an epoch from its beginning to its end, tick at the longest (ms)"),
        (aligning, "alignment (ms)", "of that, waiting for markers of other channels (ms)"),
    ):
        axis.barh(names, epochs.numbers(column), color=_COLOUR)
        axis.set_xscale("log")
        axis.set_xlim(left=1.0)
        axis.set_title(title, loc="left", fontsize=9)
    total.plot(epochs.numbers("longest (ms)"), names, "|", color="black", markersize=12)
    doubled.barh(twice.cells("mode"), twice.numbers("counted twice"), color=_COLOUR)
    rows = twice.cells("rows")[0]
    doubled.set_title(f"rows of {rows} that count twice after crashes", loc="left", fontsize=9)
    for axis in (total, aligning, doubled):
        axis.invert_yaxis()
        axis.tick_params(labelsize=8)
    save(figure, path)


def _epochs(size: Size) -> Table:
    table = Table(
        "Epochs under backpressure",
        ["mode", "keys", "total (ms)", "longest (ms)", "alignment (ms)", "unaligned"],
        f"Two workers, a function of {ROW_S * 1e3:g} ms a row, full queues, an epoch every half "
        f"second. Medians of {size.of(EPOCHS)} epochs; of each the slowest subtask.",
    )
    for name in MODES:
        for is_skewed in (False, True):
            found = _run(name, is_skewed, size.of(EPOCHS))
            aligned = [max(f.alignment_s for f in each.figures.values()) for each in found]
            table.add(
                name,
                "90 % one key" if is_skewed else "even",
                millis(median([each.duration_s for each in found])),
                millis(max(each.duration_s for each in found)),
                millis(median(aligned)),
                f"{sum(each.is_unaligned for each in found)} of {len(found)}",
            )
    return table


def _run(name: str, is_skewed: bool, epochs: int) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="mainstay-bench-") as directory:
        env = ms.Environment(
            parallelism=2,
            mode=name.split()[0],
            snapshots=ms.Snapshots(directory, every="500ms", alignment_timeout=MODES[name]),
        )
        source = Generate("key long", partial(_keys, is_skewed), splits=2)
        env.source(source, uid="keys").rebalance().map(tuple, "key long", uid="pass").key_by(
            "key"
        ).process(Slow(), "key long", uid="slow").sink(Memory(), uid="out")
        job = start(env, "modes", "processes")
        try:
            # The first ones are taken while queues fill.
            await_true(job, lambda: len(complete_epochs(job)) >= epochs + 2, "enough epochs")
            return complete_epochs(job)[2 : epochs + 2]
        finally:
            job.cancel()


def _duplicates(size: Size) -> Table:
    table = Table(
        "Rows that count twice after crashes",
        ["mode", "runs", "crashes", "rows", "counted twice"],
        "Simulated runs of a job with two shuffles, each with four crashes.",
    )
    for mode in ("exactly_once", "unaligned", "at_least_once"):
        given = [(n,) for n in range(2000)]

        def build(env: Any, given: Any = given) -> None:
            keyed = env.source(rows("n long", given, splits=3), uid="in").rebalance()
            moved = keyed.map(tuple, "n long", uid="move").key_by(lambda row: row.n % 50, "long")
            moved.process(Seen(), "n long", uid="seen").sink(Memory(), uid="out")

        seeds = size.of(SEEDS)
        twice = crashes = 0
        for seed in range(seeds):
            result = run(build, parallelism=3, seed=seed, crashes=4, mode=mode)
            twice += sum(result.state("seen", "seen").values()) - len(given)
            crashes += len(result.attempts) - 1
        table.add(mode, seeds, crashes, count(seeds * len(given)), count(twice))
    return table
