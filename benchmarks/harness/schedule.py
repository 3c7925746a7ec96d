"""In which order systems run: one at a time, the first run of each before the second of any.

A machine that is slower for a while is then slower for all, and ratios within a round hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.environments import Missing, Ready
from benchmarks.harness.measurement import Outcome, measure
from benchmarks.harness.systems import TABLES, Contender

START_AND_STOP_S = 240.0
"""What a run may take beyond the seconds that are measured: a JVM, a check, a slow batch."""

TABLE_S = 1800.0
"""The same for one whose answer is a table of many measurements."""


@dataclass(frozen=True, slots=True)
class Run:
    """One outcome, and the round it belongs to."""

    contender: Contender
    round: int
    outcome: Outcome


def rounds(contenders: Sequence[Contender], repeats: int) -> Iterator[tuple[int, Contender]]:
    for number in range(repeats):
        for contender in contenders:
            if number == 0 or contender.workload not in TABLES:
                yield number, contender


def run_all(
    contenders: Sequence[Contender],
    environments: Mapping[str, Ready | Missing],
    *,
    seconds: float,
    repeats: int,
    directory: Path,
    timeout_s: float | None = None,
    tell: Callable[[str], None] = print,
) -> Iterator[Run]:
    """Run everyone whose environment is ready; a run that fails is a result like any other."""
    for number, contender in rounds(contenders, repeats):
        environment = environments[contender.environment]
        if isinstance(environment, Missing):
            continue
        limit_s = timeout_s if timeout_s is not None else _limit_s(contender, seconds)
        outcome = measure(contender.command(environment.python, seconds), limit_s, directory)
        tell(f"round {number + 1}/{repeats}  {contender}: {_in_short(outcome)}")
        yield Run(contender, number, outcome)


def _limit_s(contender: Contender, seconds: float) -> float:
    return 3 * seconds + (TABLE_S if contender.workload in TABLES else START_AND_STOP_S)


def _in_short(outcome: Outcome) -> str:
    if outcome.answer is None:
        return outcome.failure
    if "table" in outcome.answer:
        return f"a table of {len(outcome.answer['table']['rows'])} rows"
    busy = f" (others had {outcome.others_share:.0%})" if outcome.is_disturbed else ""
    return f"{outcome.answer['records_per_s']:,.0f} records/s{busy}"
