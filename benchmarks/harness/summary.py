"""Medians over the runs of each contender, and its ratio to ours round by round."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.schedule import Run
from benchmarks.harness.systems import BOUNDS, NOTHING_DURABLE, OURS, Contender

PERCENTILES = ("p50", "p99", "p99.9")


@dataclass(frozen=True, slots=True)
class Summary:
    """One contender over all its runs; figures are None when no run answered."""

    contender: Contender
    runs: int
    answers: int
    rate: float | None
    slowest: float | None
    fastest: float | None
    ratio: float | None
    """Our rate over theirs (in W3 their median latency over ours): above one, we are ahead."""
    latency_ms: dict[str, float] | None
    peak_mb: float | None
    cpu_s: float | None
    cpu_us: float | None
    """Microseconds of CPU time for a record, of those that were counted."""
    others_share: float | None
    """How much of the machine others had, at most, in any of the runs that count."""
    verified: str
    notes: str


def summaries(runs: Sequence[Run]) -> list[Summary]:
    """In the order in which contenders first ran."""
    contenders = list(dict.fromkeys(run.contender for run in runs))
    return [_summary(contender, runs) for contender in contenders]


def best_settings(found: Sequence[Summary]) -> set[Contender]:
    """Each system's better setting at each workload: the one that counts against it.

    Like is compared with like: a setting that keeps nothing durable is shown, and does not count.
    """
    best: dict[tuple[str, str], Summary] = {}
    for one in found:
        place = (one.contender.workload, one.contender.system)
        if one.contender.system in BOUNDS or one.contender.setting in NOTHING_DURABLE:
            continue
        if one.rate is not None and (place not in best or _merit(one) > _merit(best[place])):
            best[place] = one
    return {one.contender for one in best.values()}


def _merit(one: Summary) -> float:
    """Rates are given in W3, so there it is the latency that counts."""
    if one.latency_ms:
        return -one.latency_ms["p50"]
    return one.rate or 0.0


def _summary(contender: Contender, runs: Sequence[Run]) -> Summary:
    own = [run for run in runs if run.contender == contender]
    answered = [run for run in own if run.outcome.answer is not None]
    answers = [run.outcome.answer for run in answered if run.outcome.answer is not None]
    rates = [answer["records_per_s"] for answer in answers]
    latencies = [answer["latency_ms"] for answer in answers if answer.get("latency_ms")]
    return Summary(
        contender,
        len(own),
        len(answers),
        _median(rates),
        min(rates, default=None),
        max(rates, default=None),
        _median(_ratios(contender, runs)),
        {name: statistics.median(one[name] for one in latencies) for name in PERCENTILES}
        if latencies
        else None,
        _median([run.outcome.peak_bytes / 2**20 for run in answered]),
        _median([run.outcome.cpu_s for run in answered]),
        _median(_known([_cpu_us(run) for run in answered])),
        max(_known([run.outcome.others_share for run in answered]), default=None),
        _verdict([answer.get("verified") for answer in answers]),
        _notes(
            [answer.get("note", "") for answer in answers], [run.outcome.failure for run in own]
        ),
    )


def _ratios(contender: Contender, runs: Sequence[Run]) -> list[float]:
    """One ratio for every round in which both this contender and our first setting answered."""
    reference = next(
        (
            run.contender
            for run in runs
            if run.contender.system == OURS and run.contender.workload == contender.workload
        ),
        None,
    )
    ours = {run.round: _cost(run) for run in runs if run.contender == reference}
    theirs = {run.round: _cost(run) for run in runs if run.contender == contender}
    pairs = [(theirs[number], ours.get(number)) for number in theirs]
    return [their / our for their, our in pairs if their and our]


def _cost(run: Run) -> float | None:
    """What one record costs: time, or in W3 the wait of the median record."""
    answer = run.outcome.answer
    if answer is None:
        return None
    if answer.get("latency_ms"):
        return float(answer["latency_ms"]["p50"])
    return 1 / answer["records_per_s"] if answer["records_per_s"] else None


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _cpu_us(run: Run) -> float | None:
    records = (run.outcome.answer or {}).get("records")
    if run.outcome.window_cpu_s is None or not records:
        return None
    return run.outcome.window_cpu_s / records * 1e6


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _verdict(verified: Sequence[bool | None]) -> str:
    """One wrong result makes the whole row wrong."""
    if any(one is False for one in verified):
        return "WRONG"
    return "yes" if verified and all(verified) else "–"


def _notes(notes: Sequence[str], failures: Sequence[str]) -> str:
    """What runs say of themselves, once; of figures, which come after a colon, those of each."""
    said: dict[str, dict[str, None]] = {}
    for part in (part for note in notes for part in note.split("; ") if part):
        what, _, figures = part.partition(": ")
        said.setdefault(what, {})[figures] = None
    told = [f"{what}: {' / '.join(each)}" if any(each) else what for what, each in said.items()]
    failed = dict.fromkeys(f"failed: {failure}" for failure in failures if failure)
    return "; ".join([*told, *failed])
