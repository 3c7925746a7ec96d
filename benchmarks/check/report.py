"""What a check found, as a table and a sentence for each thing that a reader should know."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.check.noise import Interval
from benchmarks.check.rounds import Pair, figures_of
from benchmarks.check.verdict import BETTER, DOUBT, LEAST, NOISY, WORSE, Verdict
from benchmarks.harness.machine import Machine, disturbance
from benchmarks.report import Table

HOW_TO_READ = f"""\
Both commits ran in every round, one after the other, each first in every other round. *Change* is
what the head has more or less than the base, *between* the interval that Wilcoxon's signed-rank
test leaves: of all checks of equal commits, chance puts any figure outside of it in {DOUBT:.0%} at
most. A figure is called worse or better when no change is outside of its interval, and the change
is {LEAST:.0%} or more."""


def document(
    base: str,
    head: str,
    on: Machine,
    loads: tuple[float, float],
    found: Sequence[Pair],
    judged: Mapping[str, Verdict],
    differs: Sequence[str],
    seconds: float,
) -> str:
    shares = [one.others_share or 0.0 for pair in found for one in (pair.base, pair.head)]
    good = [pair for pair in found if not pair.failures]
    parts = [
        f"# {head} against {base}",
        HOW_TO_READ,
        f"{on}. {seconds:g} s a run. {disturbance(shares, *loads)}",
        *_warnings(differs),
        *([_table(good, judged).to_markdown()] if judged else []),
        *_failures(found),
        conclusion(judged),
    ]
    return "\n\n".join(parts) + "\n"


def conclusion(judged: Mapping[str, Verdict]) -> str:
    """The last word: what became worse, what better, and what cannot be said."""
    if not judged:
        return "**Nothing was measured.**"
    by_word = {
        word: [name for name, verdict in judged.items() if verdict.word == word]
        for word in (WORSE, BETTER, NOISY)
    }
    said = [f"{word}: {', '.join(names)}" for word, names in by_word.items() if names]
    return f"**{'; '.join(said) or 'No figure changed'}.**"


def _table(found: Sequence[Pair], judged: Mapping[str, Verdict]) -> Table:
    columns = ["figure", "base", "head", "change", "between", "rounds", "verdict"]
    table = Table("Figures", columns)
    gathered = figures_of(found)
    for name, verdict in judged.items():
        bases, heads = zip(*gathered[name], strict=True)
        table.add(
            name,
            _number(statistics.median(bases)),
            _number(statistics.median(heads)),
            _percent(verdict.ratio.estimate),
            _range(verdict.ratio),
            verdict.rounds,
            verdict.word,
        )
    return table


def _range(ratio: Interval) -> str:
    if ratio.low == 0 or math.isinf(ratio.high):
        return "too few rounds"
    return f"{_percent(ratio.low)} and {_percent(ratio.high)}"


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _warnings(differs: Sequence[str]) -> list[str]:
    if not differs:
        return []
    return [
        "The two commits do not measure in the same way; what differs may be this: "
        f"{', '.join(differs)}."
    ]


def _failures(found: Sequence[Pair]) -> list[str]:
    lines = [
        f"- round {pair.round + 1}, {pair.workload}: {failure}"
        for pair in found
        for failure in pair.failures
    ]
    return ["## Failed", "\n".join(lines)] if lines else []
