"""``mainstay jobs``: the jobs of this user on this machine."""

from __future__ import annotations

import json
import sys
import time

from rich.console import Console
from rich.text import Text

from mainstay.control.sight import GONE, Sight, all_jobs
from mainstay.registry.folder import remove
from mainstay.spelling import counted
from mainstay.survey.listing import Listing, show_table

STYLES = {"running": "green", "finished": "green", "failed": "bold red", GONE: "bold red"}
LESS = ("place", "url", "since", "rows/s", "parallelism")
"""Which columns a narrow terminal goes without, in this order."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def run_jobs(console: Console, *, as_json: bool, is_all: bool, prune: bool) -> None:
    """Print them; those that have ended and whose program goes on only where all are asked for."""
    jobs = all_jobs()
    if prune:
        jobs = _pruned(jobs)
    shown = [job for job in jobs if is_all or not job.is_over]
    if as_json:
        print(json.dumps([job.document() for job in shown], indent=1), flush=True)
        return
    _show(console, shown)
    if left := len(jobs) - len(shown):
        told = f"{counted(left, 'job')} that ended, in programs that go on: --all shows them"
        console.print(Text(told, style="dim"))


def _pruned(jobs: list[Sight]) -> list[Sight]:
    gone = [job for job in jobs if job.status == GONE]
    for job in gone:
        remove(job.file)
    print(f"{counted(len(gone), 'job')} forgotten", file=sys.stderr, flush=True)
    return [job for job in jobs if job.status != GONE]


def _show(console: Console, jobs: list[Sight]) -> None:
    if not jobs:
        console.print(
            "no job runs here that was started with ui=True or by `mainstay run`", highlight=False
        )
        return
    names = ("name", "status", "since", "parallelism>", "epoch>", "rows/s>", "pid>", "url", "place")
    table = Listing(None, *names)
    for job in jobs:
        table.add(
            job.entry.name,
            Text(job.status, style=STYLES.get(job.status, "")),
            _ago(job.since_at),
            _number(job.parallelism),
            _number(job.epoch),
            "" if job.rows_per_s is None else f"{job.rows_per_s:,.0f}",
            str(job.entry.pid),
            job.entry.url or "",
            job.entry.place,
        )
    show_table(console, table, LESS)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _ago(at: float | None) -> str:
    """How long ago, in the largest unit that fits."""
    if at is None:
        return ""
    age = max(0.0, time.time() - at)
    size, unit = next(((s, u) for s, u in UNITS if age >= s), (1, "s"))
    return f"{age / size:.0f} {unit} ago"
