"""The report in Markdown: a table for every workload, and who is missing and why."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.machine import BUSY_SHARE, disturbance
from benchmarks.harness.record import Record
from benchmarks.harness.schedule import Run
from benchmarks.harness.summary import PERCENTILES, Summary, best_settings, summaries
from benchmarks.harness.systems import BOUNDS, TABLES, WORKLOADS, Contender
from benchmarks.report import Table

_NOTHING = "–"
_HOW_TO_READ = f"""\
Every row is one system in one setting, measured in a process tree of its own, one at a time; the
first run of each before the second of any. Figures are medians; *range* is the slowest and the
fastest run. *ours ÷* is the median over rounds of our rate divided by theirs in the same round
(for latencies: their median divided by ours), against the first row of ours: above one, we are
ahead. A star marks the better setting of a system that keeps its state durable, which is the one
that counts; settings without durability are shown beside it. {", ".join(sorted(BOUNDS))} are bounds
and no competitors. *CPU µs* is the CPU time for a record, of the records that were counted. *peak
MB* is the peak of the summed resident sizes of all processes of a system and *CPU s* all their
seconds, start and warm-up included. *others* is how much of the processors others had, at most;
an exclamation mark says that it was more than {BUSY_SHARE:.0%}. *right* says whether the results
were compared with the reference."""


def document(record: Record) -> str:
    """The whole report."""
    tables = [*workload_tables(summaries(record.runs)), *answered_tables(record.runs)]
    parts = [
        "# Mainstay and its peers",
        _HOW_TO_READ,
        setting(record),
        f"Versions: {', '.join(record.versions.values())}.",
        *(table.to_markdown() for table in tables),
        *_missing(record),
    ]
    return "\n\n".join(parts) + "\n"


def setting(record: Record) -> str:
    """Where, when and for how long it was measured, and how quiet it was."""
    said = [f"{record.repeats} runs of {record.seconds:g} s each after the warm-up."]
    if record.machine is not None:
        said.insert(0, f"{record.machine}.")
    if record.measured_at:
        at = f" at commit {record.commit}" if record.commit else ""
        said.append(f"Measured on {record.measured_at}{at}.")
    shares = [one for run in record.runs if (one := run.outcome.others_share) is not None]
    if record.load_before is not None and record.load_after is not None and shares:
        said.append(disturbance(shares, record.load_before, record.load_after))
    else:
        said.append("Nobody looked how busy the machine was meanwhile.")
    return " ".join(said)


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
    columns = ["system", "setting", "records/s", "range", *latency, "ours ÷", "CPU µs"]
    table = Table(title, [*columns, "peak MB", "CPU s", "others", "right", "note"])
    for one in found:
        star = " *" if one.contender in best else ""
        table.add(
            one.contender.system,
            one.contender.setting + star,
            _count(one.rate) if one.answers else "failed",
            _NOTHING if one.answers < 2 else f"{_count(one.slowest)}–{_count(one.fastest)}",
            *(_latency(one, name) for name in PERCENTILES if timed),
            _NOTHING if one.ratio is None else _ratio(one.ratio),
            cost(one.cpu_us),
            _count(one.peak_mb),
            _count(one.cpu_s),
            _share(one.others_share),
            one.verified,
            one.notes.replace("|", "/"),
        )
    return table


def cost(cpu_us: float | None) -> str:
    """Microseconds, with as many digits as mean something."""
    if cpu_us is None:
        return _NOTHING
    return (
        f"{cpu_us:,.0f}" if cpu_us >= 100 else f"{cpu_us:.2g}" if cpu_us < 10 else f"{cpu_us:.0f}"
    )


def _share(share: float | None) -> str:
    if share is None:
        return _NOTHING
    return f"{share:.0%}{' !' if share > BUSY_SHARE else ''}"


def _latency(one: Summary, name: str) -> str:
    return f"{one.latency_ms[name]:,.1f}" if one.latency_ms else _NOTHING


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _count(number: float | None) -> str:
    return _NOTHING if number is None else f"{number:,.0f}"


def _missing(record: Record) -> list[str]:
    """A section that names everyone who was asked for and could not be measured."""
    lines = [f"- {system}: {reason}" for system, reason in record.missing.items()]
    return ["## Missing", "\n".join(lines)] if lines else []
