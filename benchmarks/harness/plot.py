"""The report as a picture: bars on a logarithmic scale, one panel for every workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.summary import Summary
from benchmarks.harness.systems import OURS, TABLES, WORKLOADS
from benchmarks.picture import panels, save

_OURS, _THEIRS = "#c0392b", "#7f8c8d"


def draw(found: Sequence[Summary], path: Path) -> None:
    """Write the picture to ``path``; its suffix says in which format."""
    shown = _panels(found)
    if not shown:
        return
    figure, axes = panels(path, [0.6 + 0.32 * len(rows) for _, rows in shown])
    for axis, (workload, rows) in zip(axes, shown, strict=True):
        _bars(axis, workload, rows)
    save(figure, path)


def _panels(found: Sequence[Summary]) -> list[tuple[str, list[Summary]]]:
    answered = [one for one in found if one.rate and one.contender.workload not in TABLES]
    grouped = [(w, [one for one in answered if one.contender.workload == w]) for w in WORKLOADS]
    return [(workload, rows) for workload, rows in grouped if rows]


def _bars(axis: Any, workload: str, rows: Sequence[Summary]) -> None:
    """The first row on top; W3 shows median latencies with a tick at the 99th percentile."""
    names = [f"{one.contender.system}, {one.contender.setting}" for one in rows]
    colours = [_OURS if one.contender.system == OURS else _THEIRS for one in rows]
    timed = any(one.latency_ms for one in rows)
    values = [one.latency_ms["p50"] if one.latency_ms else one.rate for one in rows]
    axis.barh(names, values, color=colours)
    if timed:
        tails = [one.latency_ms["p99"] if one.latency_ms else None for one in rows]
        axis.plot(tails, names, "|", color="black", markersize=14)
    axis.set_xscale("log")
    # A bar has no natural foot on a logarithmic scale; the shortest should still be seen.
    axis.set_xlim(left=min(values) / 3)
    axis.invert_yaxis()
    axis.set_title(f"{workload}: {WORKLOADS[workload]}", loc="left", fontsize=9)
    axis.set_xlabel("ms: median, tick at p99" if timed else "records/s", fontsize=8)
    axis.tick_params(labelsize=8)
