"""What the rounds of all queries came to, as a table in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness.environments import Missing, Ready
from benchmarks.harness.measurement import Outcome
from benchmarks.report import Table, count, machine, median

OURS, FLINK = "mainstay", "flink"
_NOTHING = "–"

_HOW_TO_READ = """\
*events/s* are events of all kinds divided by *seconds*: from handing a job over to its end, in a
process that has run the query before. *start* is what the same takes for a thousand events: the
start of workers, of a cluster in the JVM, and their end. *running* are events/s of what is left of
the seconds without it. *CPU* are seconds of all processors in all processes while it runs, without
those of the start: they say what a system needs, whatever runs beside it. Two workers each, a
snapshot every second, results discarded. Figures are medians over the rounds; *ours ÷* is the
median over rounds of their seconds divided by ours in the same round: with the start, running, and
of the processors. Above one, we are ahead. Running has no ratio where most of our seconds are
start: what is left is noise, so take more events. *Right* says whether we gave as many rows as
DuckDB; what is in them is compared by the tests."""


@dataclass(frozen=True)
class Measured:
    """One run of one system at one query."""

    query: str
    system: str
    round: int
    outcome: Outcome


def report(
    found: Sequence[Measured],
    wanted: Mapping[str, int | None],
    peer: Ready | Missing,
    *,
    events: int,
    rounds: int,
) -> str:
    """The whole page."""
    flink = peer.version if isinstance(peer, Ready) else f"Flink is missing: {peer.reason}"
    head = [
        "# Nexmark",
        _HOW_TO_READ,
        f"{machine()} {flink}. {events:,} events, {rounds} rounds.",
        table(found, wanted, events).to_markdown(),
    ]
    return "\n\n".join([*head, *_failures(found)]) + "\n"


def table(found: Sequence[Measured], wanted: Mapping[str, int | None], events: int) -> Table:
    figures = ["events/s", "running", "seconds", "start", "CPU s"]
    columns = ["query", *(f"ours: {name}" for name in figures)]
    columns += [*(f"Flink: {name}" for name in figures), "ours ÷", "running ÷", "CPU ÷", "right"]
    made = Table("Ours beside Flink SQL", columns)
    for query in dict.fromkeys(each.query for each in found):
        ours, theirs = (_answered(found, query, system) for system in (OURS, FLINK))
        made.add(
            query,
            *_figures(ours, events),
            *_figures(theirs, events),
            _ratio(theirs, ours, _seconds),
            _ratio(theirs, ours, _net),
            _ratio(theirs, ours, _cpu),
            _is_right(ours, wanted.get(query)),
        )
    return made


Answered = Mapping[int, Outcome]
"""The runs of one system at one query that were answered, by round."""


def _answered(found: Sequence[Measured], query: str, system: str) -> Answered:
    return {
        each.round: each.outcome
        for each in found
        if (each.query, each.system) == (query, system) and each.outcome.answer is not None
    }


def _seconds(outcome: Outcome, of: str = "seconds") -> float:
    return float((outcome.answer or {})[of])


def _net(outcome: Outcome) -> float:
    """The seconds without the start, or 0 where most of them are start: the rest is noise then."""
    start_s = _seconds(outcome, "start_s")
    net_s = _seconds(outcome) - start_s
    return net_s if net_s > start_s else 0.0


def _cpu(outcome: Outcome) -> float:
    """What the running phase took of the processors; 0 where the start took as much."""
    return max(0.0, _seconds(outcome, "cpu_s") - _seconds(outcome, "start_cpu_s"))


def _figures(answered: Answered, events: int) -> tuple[str, ...]:
    if not answered:
        return (_NOTHING,) * 5
    runs = answered.values()
    seconds = median([_seconds(run) for run in runs])
    start_s = median([_seconds(run, "start_s") for run in runs])
    net_s = median([_seconds(run) - _seconds(run, "start_s") for run in runs])
    running = count(events / net_s) if net_s > 0 else _NOTHING
    times = (f"{each:.1f}" for each in (seconds, start_s, median([_cpu(run) for run in runs])))
    return count(events / seconds), running, *times


def _ratio(theirs: Answered, ours: Answered, taken: Callable[[Outcome], float]) -> str:
    """Of the rounds in which both have taken some time."""
    pairs = [(taken(theirs[n]), taken(ours[n])) for n in theirs.keys() & ours.keys()]
    ratios = [their_s / our_s for their_s, our_s in pairs if min(their_s, our_s) > 0]
    return f"{median(ratios):.2f}" if ratios else _NOTHING


def _is_right(ours: Answered, wanted: int | None) -> str:
    if wanted is None or not ours:
        return _NOTHING
    given = {(run.answer or {}).get("rows") for run in ours.values()}
    return "yes" if given == {wanted} else f"no: {given}, not {wanted:,}"


def _failures(found: Sequence[Measured]) -> list[str]:
    lines = [
        f"- {each.query}, {each.system}, round {each.round + 1}: {each.outcome.failure}"
        for each in found
        if each.outcome.answer is None
    ]
    return ["## Failed", "\n".join(lines)] if lines else []
