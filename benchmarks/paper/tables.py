"""The report: what the runs of all rounds come to."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from benchmarks.paper.grid import AXES, Amount
from benchmarks.paper.modes import MODES, NONE
from benchmarks.paper.running import Case, Run
from benchmarks.report import Table, count, machine, median

QUIET_CORES = 0.15
"""With more than that kept busy by others, figures are not worth comparing."""
HEAD = """# Measurements of ways to take a snapshot

What is compared, and what these figures say and do not say, is in
[ways to take a snapshot](../../docs/ways_to_take_a_snapshot.md)."""

Figure = Callable[[Run], "float | None"]


class Runs:
    """All runs, by case and mode."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.all = list(runs)
        self.modes = [name for name in MODES if any(run.mode == name for run in runs)]

    def of(self, case: Case, mode: str) -> list[Run]:
        return [run for run in self.all if run.case == case and run.mode == mode]

    def values(self, case: Case, mode: str, figure: Figure) -> list[float]:
        found = [figure(run) for run in self.of(case, mode)]
        return [value for value in found if value is not None]

    def of_none(self, run: Run) -> float | None:
        """The throughput of a run beside that without snapshots in the same round."""
        beside = [one for one in self.of(run.case, NONE.name) if one.round == run.round]
        return run.full["rows_per_s"] / beside[0].full["rows_per_s"] if beside else None

    @property
    def wrong(self) -> list[Run]:
        return [run for run in self.all if not run.is_right]


def full(name: str) -> Figure:
    return lambda run: run.full.get(name)


def paced(name: str) -> Figure:
    return lambda run: run.paced.get(name)


def tables(runs: Runs, amount: Amount, axes: Sequence[str]) -> list[Table]:
    return [
        each for axis in axes for each in (_rates(runs, amount, axis), _ages(runs, amount, axis))
    ]


def _rates(runs: Runs, amount: Amount, axis: str) -> Table:
    columns = {
        "records/s": (full("rows_per_s"), count),
        "of none": (runs.of_none, _percent),
        "longest gap (ms)": (full("gap_ms"), _millis),
        "sources stopped (ms)": (full("stopped_ms"), _millis),
        "snapshot (ms)": (full("took_ms"), _millis),
        "alignment (ms)": (full("alignment_ms"), _millis),
        "bytes of a snapshot": (full("epoch_bytes"), count),
    }
    note = (
        f"{_fixed(amount, axis)}. Rows come as fast as they are taken. *Longest gap*: for how long "
        "nothing came out. *Sources stopped* and *snapshot*: medians of the snapshots of a run."
    )
    return _table(runs, amount, axis, AXES[axis].title, columns, note)


def _ages(runs: Runs, amount: Amount, axis: str) -> Table:
    columns = {
        "pace (records/s)": (paced("pace"), count),
        "p50 (ms)": (paced("p50_ms"), _millis),
        "p99 (ms)": (paced("p99_ms"), _millis),
        "longest (ms)": (paced("p100_ms"), _millis),
        "longest gap (ms)": (paced("gap_ms"), _millis),
        "sources stopped (ms)": (paced("stopped_ms"), _millis),
    }
    note = (
        f"{_fixed(amount, axis)}. Rows come at a quarter of the rate that the job without "
        "snapshots takes. From when a row was due to its arrival at the sink, before its commit."
    )
    return _table(runs, amount, axis, f"{AXES[axis].title}: latency", columns, note)


def _table(
    runs: Runs,
    amount: Amount,
    axis: str,
    title: str,
    columns: dict[str, tuple[Figure, Callable[[float], str]]],
    note: str,
) -> Table:
    table = Table(title, [AXES[axis].column, "mode", *columns], note)
    for case in amount.cases(axis):
        for mode in runs.modes:
            cells = [
                _ranged(runs.values(case, mode, figure), show) for figure, show in columns.values()
            ]
            if runs.of(case, mode):
                table.add(AXES[axis].shown(case), mode, *cells)
    return table


def _ranged(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The median, and from where to where."""
    if not values:
        return ""
    middle = show(median(values))
    return middle if len(values) == 1 else f"{middle} ({show(min(values))} – {show(max(values))})"


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _millis(value: float) -> str:
    return f"{value:.1f}" if value < 10 else count(value)


def _fixed(amount: Amount, axis: str) -> str:
    """What is the same in all rows."""
    case = amount.middle
    parts = {
        "state": f"{case.keys:,} keys",
        "parallelism": f"{case.workers} workers",
        "shuffles": "one shuffle" if case.shuffles == 1 else f"{case.shuffles} shuffles",
        "interval": f"a snapshot every {case.every_s:g} s",
    }
    text = ", ".join(part for name, part in parts.items() if name != axis)
    return text[0].upper() + text[1:]


# ---------------------------------------------------------------- the whole


def document(runs: Runs, amount: Amount, axes: Sequence[str], pictures: Sequence[str]) -> str:
    """The whole report; ``pictures`` are the names of those that were drawn."""
    shown = {picture: f"![{picture}]({picture})" for picture in pictures}
    parts = [HEAD, described(runs, amount)]
    for axis in axes:
        parts += [table.to_markdown() for table in tables(runs, amount, [axis])]
        parts += [text for picture, text in shown.items() if picture.endswith(f"-{axis}.svg")]
    return "\n\n".join(parts) + "\n"


def described(runs: Runs, amount: Amount) -> str:
    """The machine, how much was measured, and what else went on."""
    rounds = len({run.round for run in runs.all})
    others = [run.others_cores for run in runs.all]
    loads = [run.load for run in runs.all]
    verdict = (
        "The machine was quiet."
        if median(others) <= QUIET_CORES
        else "**The machine was busy with other work: these figures show that everything runs, and "
        "are not worth comparing.**"
    )
    right = (
        "State and output of every run were those of the reference."
        if not runs.wrong
        else f"**WRONG: {len(runs.wrong)} of {len(runs.all)} runs.**"
    )
    return (
        f"{_processor()}; {psutil.virtual_memory().total / 2**30:.0f} GiB; {machine()} "
        f"Size: {amount.name}; {rounds} rounds in turn, windows of {amount.seconds:g} s. Medians "
        "of the rounds, and from where to where they go. A share is one of the same round.\n\n"
        f"{verdict} Other programs kept {median(others):.2f} cores busy ({min(others):.2f} – "
        f"{max(others):.2f}). Load when runs began: {median(loads):.1f} ({min(loads):.1f} – "
        f"{max(loads):.1f}), of which the run before is a part. {right}"
    )


def _processor() -> str:
    """What the processor calls itself, where that can be told."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    for line in info.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
