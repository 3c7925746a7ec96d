"""The report in Markdown: a table for every workload, and who is missing and why."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from benchmarks.harness.environments import Missing, Ready
from benchmarks.harness.schedule import Run
from benchmarks.harness.summary import PERCENTILES, Summary, best_settings, summaries
from benchmarks.harness.systems import TABLES, WORKLOADS, Contender
from benchmarks.report import Table

_NOTHING = "–"
_HOW_TO_READ = """\
Every row is one system in one setting, measured in a process tree of its own, one at a time; the
first run of each before the second of any. Figures are medians; *range* is the slowest and the
fastest run. *ours ÷* is the median over rounds of our rate divided by theirs in the same round
(for latencies: their median divided by ours), against the first row of ours: above one, we are
ahead. A star marks the better setting of a system, which is the one that counts. Memory is the
peak of the summed resident sizes of all its processes and CPU all their seconds, start and
warm-up included. *Right* says whether the results were compared with the reference."""


def document(
    runs: Sequence[Run],
    environments: Mapping[str, Ready | Missing],
    contenders: Sequence[Contender],
    *,
    seconds: float,
    repeats: int,
) -> str:
    """The whole report."""
    head = [
        "# Mainstay and its peers",
        _HOW_TO_READ,
        f"{_machine()} {repeats} runs of {seconds:g} s each after the warm-up.",
        _versions(environments),
    ]
    tables = [*workload_tables(summaries(runs)), *answered_tables(runs)]
    shown = [table.to_markdown() for table in tables]
    return "\n\n".join([*head, *shown, *_missing(environments, contenders)]) + "\n"


def workload_tables(found: Sequence[Summary]) -> list[Table]:
    best = best_settings(found)
    tables = []
    for workload, question in WORKLOADS.items():
        own = [one for one in found if one.contender.workload == workload]
        if own and workload not in TABLES:
            tables.append(_table(f"{workload}: {question}", own, best))
    return tables


def answered_tables(runs: Sequence[Run]) -> list[Table]:
    """The tables that systems gave as their answers, or what went wrong instead."""
    tables = []
    for run in runs:
        workload, answer = run.contender.workload, run.outcome.answer or {}
        if workload not in TABLES:
            continue
        given = answer.get("table")
        if given is None:
            reason = run.outcome.failure or "the answer holds no table"
            given = {"title": str(run.contender), "columns": ["failed"], "rows": [[reason]]}
        table = Table(f"{workload}: {given['title']}", given["columns"], given.get("note", ""))
        for row in given["rows"]:
            table.add(*row)
        tables.append(table)
    return tables


def _table(title: str, found: Sequence[Summary], best: set[Contender]) -> Table:
    timed = any(one.latency_ms for one in found)
    latency = [f"{name} ms" for name in PERCENTILES] if timed else []
    columns = ["system", "setting", "records/s", "range", *latency, "ours ÷"]
    table = Table(title, [*columns, "peak MB", "CPU s", "right", "note"])
    for one in found:
        star = " *" if one.contender in best else ""
        table.add(
            one.contender.system,
            one.contender.setting + star,
            _count(one.rate) if one.answers else "failed",
            _NOTHING if one.answers < 2 else f"{_count(one.slowest)}–{_count(one.fastest)}",
            *(_latency(one, name) for name in PERCENTILES if timed),
            _NOTHING if one.ratio is None else _ratio(one.ratio),
            _count(one.peak_mb),
            _count(one.cpu_s),
            one.verified,
            one.notes.replace("|", "/"),
        )
    return table


def _latency(one: Summary, name: str) -> str:
    return f"{one.latency_ms[name]:,.1f}" if one.latency_ms else _NOTHING


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _count(number: float | None) -> str:
    return _NOTHING if number is None else f"{number:,.0f}"


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores ({platform.machine()}, {platform.system()}), "
        f"{platform.python_implementation()} {platform.python_version()}."
    )


def _versions(environments: Mapping[str, Ready | Missing]) -> str:
    ready = [one.version for one in environments.values() if isinstance(one, Ready)]
    return f"Versions: {', '.join(ready)}."


def _missing(
    environments: Mapping[str, Ready | Missing], contenders: Sequence[Contender]
) -> list[str]:
    """A section that names everyone who was asked for and could not be measured."""
    lines = []
    for name, environment in environments.items():
        if isinstance(environment, Missing):
            systems = dict.fromkeys(c.system for c in contenders if c.environment == name)
            lines += [f"- {system}: {environment.reason}" for system in systems]
    return ["## Missing", "\n".join(lines)] if lines else []
