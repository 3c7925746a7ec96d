"""The report as pictures: one for every workload, with the cost of a record beside every rate."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.harness.record import Record
from benchmarks.harness.summary import Summary, best_settings, summaries
from benchmarks.harness.svg import Bar, picture, short
from benchmarks.harness.systems import BOUNDS, OURS, TABLES, WORKLOADS, Contender
from benchmarks.harness.tables import cost, setting


def pictures(record: Record) -> dict[str, str]:
    """An SVG for each workload that somebody answered."""
    found = [one for one in summaries(record.runs) if one.rate]
    best = best_settings(found)
    made = {}
    for workload, question in WORKLOADS.items():
        rows = [one for one in found if one.contender.workload == workload]
        if rows and workload not in TABLES:
            made[workload] = _picture(f"{workload}: {question}", rows, best, setting(record))
    return made


def _picture(title: str, rows: Sequence[Summary], best: set[Contender], where: str) -> str:
    is_timed = any(one.latency_ms for one in rows)
    bars = [_latencies(one, best) if is_timed else _rates(one, best) for one in rows]
    unit = (
        "ms: bar to the median, line to p99; peak memory; CPU"
        if is_timed
        else "records/s: median and range; peak memory; CPU"
    )
    has_costs = any(one.cpu_us is not None for one in rows)
    unit += " time a record; logarithmic" if has_costs else " time of a run; logarithmic"
    told = "; ".join(f"{bar.name}: {bar.said}" for bar in bars)
    return picture(title, unit, f"{told}. {where.replace('*', '')}", bars)


def _rates(one: Summary, best: set[Contender]) -> Bar:
    rate = one.rate or 0.0
    low, high = one.slowest or rate, one.fastest or rate
    said = f"{short(rate)}/s · {_costs(one)}"
    return Bar(_name(one, best), rate, low, high, said, _kind(one))


def _latencies(one: Summary, best: set[Contender]) -> Bar:
    found = one.latency_ms or {"p50": 1.0, "p99": 1.0}
    p50, p99 = found["p50"], found["p99"]
    said = f"{short(p50)} ms, p99 {short(p99)} · {_costs(one)}"
    return Bar(_name(one, best), p50, p50, p99, said, _kind(one))


def _costs(one: Summary) -> str:
    memory = "" if one.peak_mb is None else f"{short(one.peak_mb * 2**20)}B"
    spent = f"{cost(one.cpu_us)} µs" if one.cpu_us is not None else f"{one.cpu_s:.0f} s CPU"
    wrong = "WRONG" if one.verified == "WRONG" else ""
    return " · ".join(filter(None, (memory, spent, wrong)))


def _name(one: Summary, best: set[Contender]) -> str:
    return f"{one.contender.system}, {one.contender.setting}{' *' * (one.contender in best)}"


def _kind(one: Summary) -> str:
    if one.contender.system == OURS:
        return "ours"
    return "bound" if one.contender.system in BOUNDS else "peer"
