"""The report as a picture: bars on a logarithmic scale, one panel for every workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.summary import Summary
from benchmarks.harness.systems import OURS, TABLES, WORKLOADS

_OURS, _THEIRS = "#c0392b", "#7f8c8d"


class NoPlotError(Exception):
    """There is no matplotlib; the message says how to get it."""


def draw(found: Sequence[Summary], path: Path) -> None:
    """Write the picture to ``path``; its suffix says in which format."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoPlotError(
            f"{path.name} was not drawn: matplotlib is missing; pip install 'mainstay[bench]'"
        ) from error
    # Without a display, and with the same bytes for the same figures.
    matplotlib.use("svg" if path.suffix == ".svg" else "agg")
    matplotlib.rcParams["svg.hashsalt"] = "mainstay"
    from matplotlib import pyplot

    panels = _panels(found)
    if not panels:
        return
    heights = [0.6 + 0.32 * len(rows) for _, rows in panels]
    figure, axes = pyplot.subplots(
        len(panels),
        figsize=(9, sum(heights) + 0.5 * len(panels)),
        gridspec_kw={"height_ratios": heights},
        squeeze=False,
    )
    for axis, (workload, rows) in zip(axes[:, 0], panels, strict=True):
        _bars(axis, workload, rows)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


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
