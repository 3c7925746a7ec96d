"""The report of ``mainstay bench`` in a terminal."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mainstay.bench.suite import BARE, Outcome

_VERSIONS = ("mainstay", "pyspark", "pyarrow", "numpy")


def machine() -> str:
    """What the figures were measured on, as far as it explains them."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    libraries = [f"{name} {found}" for name in _VERSIONS if (found := _version(name))]
    cores = f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()})"
    return ", ".join([cores, python, *libraries])


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def show(console: Console, outcomes: Sequence[Outcome], heading: str) -> None:
    """Rates first, then latencies; everything that was checked says whether it was right."""
    console.print(_rates(outcomes, heading))
    for outcome in outcomes:
        if outcome.latency_ms is not None:
            console.print(_latency(outcome))
    console.print(Text(machine(), style="dim"))


def _rates(outcomes: Sequence[Outcome], heading: str) -> Table:
    table = Table(title=heading, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("workload")
    for name in ("records/s", "of the bare loop", "result"):
        table.add_column(name, justify="right")
    for each in sorted(outcomes, key=lambda each: each.title != BARE):
        if each.latency_ms is None:
            share = f"{each.records_per_s / each.beside:.0%}" if each.beside else ""
            table.add_row(each.title, f"{each.records_per_s:,.0f}", share, _verdict(each))
    return table


def _latency(outcome: Outcome) -> Table:
    assert outcome.latency_ms is not None
    table = Table(header_style="bold")
    table.add_column(f"{outcome.title}, from the source to the sink")
    for name in (*outcome.latency_ms, "result"):
        table.add_column(name, justify="right")
    figures = [f"{value:.1f} ms" for value in outcome.latency_ms.values()]
    table.add_row(f"{outcome.records_per_s:,.0f} records/s", *figures, _verdict(outcome))
    return table


def _verdict(outcome: Outcome) -> Text:
    if outcome.is_right is None:
        return Text("")
    return Text("exact", style="green") if outcome.is_right else Text("wrong", style="bold red")
