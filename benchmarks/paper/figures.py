"""The figures: throughput, the longest gap and latency, as one thing after the other is varied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.paper.grid import AXES, Amount
from benchmarks.paper.modes import NONE
from benchmarks.paper.running import Case
from benchmarks.paper.tables import Figure, Runs, full, paced
from benchmarks.picture import panels, save
from benchmarks.report import median

COLOURS = {
    "none": "#95a5a6",
    "stop-the-world": "#2c3e50",
    "drain, durable": "#2471a3",
    "drain": "#5dade2",
    "micro-batches": "#229954",
    "pipelined": "#c0392b",
    "unaligned": "#e67e22",
}
SPREAD = 0.06
"""How far the marks of neighbouring modes are apart, so that none hides another."""


def draw(runs: Runs, amount: Amount, axes: Sequence[str], folder: Path, stem: str) -> list[str]:
    """A picture for each axis; their names."""
    drawn = []
    for axis in axes:
        path = folder / f"{stem}-{axis}.svg"
        _draw(runs, amount, axis, path)
        drawn.append(path.name)
    return drawn


def _draw(runs: Runs, amount: Amount, axis: str, path: Path) -> None:
    figure, (rate, gap, age) = panels(path, [2.4, 2.4, 2.4])
    cases = amount.cases(axis)

    def of_none(run: Any) -> float | None:
        share = runs.of_none(run)
        return None if share is None else share * 100

    shares = [mode for mode in runs.modes if mode != NONE.name]
    _lines(rate, runs, cases, shares, of_none)
    rate.set_ylim(bottom=0)
    rate.axhline(100, color=COLOURS["none"], linestyle="--", linewidth=1)
    rate.set_title("throughput, in percent of that without snapshots", loc="left", fontsize=9)
    _lines(gap, runs, cases, runs.modes, full("gap_ms"))
    gap.set_title("longest time without output, at full speed (ms)", loc="left", fontsize=9)
    _lines(age, runs, cases, runs.modes, paced("p99_ms"))
    age.set_title("latency at a quarter of the speed, 99th percentile (ms)", loc="left", fontsize=9)
    for axes in (gap, age):
        axes.set_yscale("log")
    for axes in (rate, gap, age):
        _name(axes, axis, cases)
    # On the panel that has all modes, below everything.
    age.legend(fontsize=8, ncols=4, loc="upper left", bbox_to_anchor=(0, -0.22), frameon=False)
    save(figure, path)


def _lines(
    axes: Any, runs: Runs, cases: Sequence[Case], modes: Sequence[str], figure: Figure
) -> None:
    """A line for each mode, with the range of its rounds."""
    for number, mode in enumerate(modes):
        found = [(x, runs.values(case, mode, figure)) for x, case in enumerate(cases)]
        there = [(x, values) for x, values in found if values]
        if not there:
            continue
        middles = [median(values) for _, values in there]
        below = [m - min(v) for m, (_, v) in zip(middles, there, strict=True)]
        above = [max(v) - m for m, (_, v) in zip(middles, there, strict=True)]
        shift = (number - len(modes) / 2) * SPREAD
        axes.errorbar(
            [x + shift for x, _ in there],
            middles,
            yerr=[below, above],
            color=COLOURS[mode],
            label=mode,
            marker="o",
            markersize=4,
            linewidth=1.2,
            capsize=2,
        )


def _name(axes: Any, axis: str, cases: Sequence[Case]) -> None:
    shown: Callable[[Case], str] = AXES[axis].shown
    axes.set_xticks(range(len(cases)), [shown(case) for case in cases])
    axes.set_xlabel(AXES[axis].column, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", alpha=0.3)
