"""The job whose states of event time are frozen in a snapshot: timers, windows, joins, rows kept.

``python -m tests.golden.event_time FILE.zip`` writes it, as of the version that runs it. Never
change what this job declares; add another job instead.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from shutil import make_archive
from tempfile import TemporaryDirectory
from typing import Any

import mainstay as ms
from mainstay.plan.planning import plan_of
from mainstay.runtime.options import JobOptions, RestoreOptions, SnapshotOptions
from mainstay.runtime.spec import JobSpec, Tuning
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage
from mainstay.testing.inspect import committed_state
from mainstay.testing.run import replaced
from mainstay.testing.settings import SimulationSettings
from mainstay.testing.simulation import Simulation

T0 = datetime(2026, 1, 1, tzinfo=timezone.utc)
CLICK = "user string, n long, at timestamp, until timestamp"
SEEN = "id string, m long, seen timestamp"
SECOND = timedelta(seconds=1)
CLICKS = [(f"u{n % 4}", n, T0 + n * SECOND, T0 + (n + n % 5) * SECOND) for n in range(24)]
VIEWS = [(f"u{n % 3}", n, T0 + n * SECOND) for n in range(24)]
OUT = "user string, n long"
EPOCHS = 3


class Timed(ms.KeyedProcess):
    """Timers that are declared, and that are not, and a side output."""

    close = ms.Timer("event_time")
    odd = ms.SideOutput("user string, n long")

    def process(self, row: Any, ctx: Any) -> None:
        self.close.set(row.at + 10 * SECOND)
        ctx.timers.event_time(row.at)
        if row.n % 2:
            self.odd.emit((row.user, row.n))

    def on_timer(self, at: Any, ctx: Any) -> Any:
        yield ctx.key, (1000 if ctx.timer == "close" else 1)


class Gathered(ms.WindowProcess):
    """Of the rows of a window, so that they are kept by pane."""

    def process(self, rows: Any, window: Any, ctx: Any) -> Any:
        yield ctx.key, sum(row.n for row in rows)


async def asked(row: Any) -> Any:
    return row.user, row.n


def build(env: ms.Environment) -> None:
    clicks = env.source(
        ms.connectors.Rows(CLICK, CLICKS, splits=2),
        uid="clicks",
        watermark=ms.Watermark("at", delay="1h"),
    )
    views = env.source(
        ms.connectors.Rows(SEEN, VIEWS, splits=2),
        uid="views",
        watermark=ms.Watermark("seen", delay="1h"),
    )
    keyed, other = clicks.key_by("user"), views.key_by("id")
    timed = keyed.process(Timed(), OUT, uid="timed")
    sliding = ms.sliding("10s", every="5s")
    streams = {
        "timed": timed,
        "odd": timed.side("odd"),
        "tumbling": keyed.window(ms.tumbling("5s")).aggregate(n=ms.sum("n"), uid="tumbling"),
        "sliding": keyed.window(sliding).aggregate(n=ms.max("n"), uid="sliding"),
        "session": keyed.window(ms.session("3s")).aggregate(n=ms.sum("n"), uid="session"),
        "best": keyed.window(ms.tumbling("9s")).top(2, by="n", uid="best"),
        "gathered": keyed.window(ms.tumbling("7s")).process(Gathered(), OUT, uid="gathered"),
        "interval": keyed.join(other, within=ms.interval("-2s", "3s"), how="full", uid="interval"),
        "until": keyed.join(
            other, within=ms.interval("0s", ms.col("until")), how="left", uid="until"
        ),
        "window": keyed.join(other, window=ms.tumbling("4s"), how="left", uid="window"),
        "as_of": keyed.join(other, as_of="left", how="left", uid="as_of"),
        "regular": keyed.join(other, keep="forever", uid="regular"),
        "first": keyed.deduplicate(uid="first"),
        "last": keyed.deduplicate("last", by="n", within="1h", uid="last").filter(
            ms.col("n") >= len(CLICKS) - 4
        ),
        "top": keyed.top(1, by=["n", "at"], uid="top").filter(ms.col("n") >= len(CLICKS)),
        "asked": clicks.map_async(asked, OUT, capacity=2, uid="asked"),
    }
    for name, stream in streams.items():
        counts = stream.key_by("user").aggregate(
            rows=ms.count(), total=ms.sum("n"), uid=f"counts-{name}"
        )
        counts.sink(ms.connectors.Memory(), uid=f"out-{name}")


NAMES = [
    *("timed", "odd", "tumbling", "sliding", "session", "best", "gathered", "interval", "until"),
    *("window", "as_of", "regular", "first", "last", "asked"),
]


def simulate(
    storage: Storage, parallelism: int, settings: SimulationSettings, *, restore: str = "new"
) -> tuple[JobSpec, Simulation]:
    """Run the job, fresh or from its last epoch."""
    env = ms.Environment(parallelism=parallelism, max_parallelism=16)
    build(env)
    graph, _ = replaced(env.graph(), {})
    job = plan_of(graph)
    snapshots = SnapshotOptions(every_s=0.01, retain=1)
    tuning = Tuning(batch_rows=4, first_slice_rows=3, max_slice_rows=3)
    options = JobOptions(
        "golden", "golden", snapshots, restore=RestoreOptions(restore), tuning=tuning
    )
    simulation = Simulation(job, options, replace(settings, seed=3), storage)
    simulation.run()
    return job, simulation


def results(storage: Storage, job: JobSpec) -> dict[str, Any]:
    """What every part of the job has come to, since its first row."""
    found = {name: committed_state(storage, job, f"counts-{name}", "aggregates") for name in NAMES}
    # Which row came first depends on the order of two splits; that there was one does not.
    found["first"] = {key: row.rows for key, row in found["first"].items()}
    found["top"] = committed_state(storage, job, "top", "top")
    return found


def write(archive: Path) -> None:
    """A snapshot of the middle of the job, with rows under way."""
    with TemporaryDirectory() as directory:
        settings = SimulationSettings(stop_after_epochs=EPOCHS)
        simulate(open_storage(directory), 1, settings)
        make_archive(str(archive.with_suffix("")), "zip", directory)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
