"""Both commits in turn, round after round, and the pairs of figures that come of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.check.figures import FIGURES
from benchmarks.check.trees import Tree
from benchmarks.harness.measurement import Outcome, measure

PATIENCE_S = 300.0
"""What a run may take beyond the seconds that are measured."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One round of one workload, at both commits."""

    workload: str
    round: int
    base: Outcome
    head: Outcome

    @property
    def failures(self) -> list[str]:
        """What is wrong with it, in words: a run that failed, or a result that is not right."""
        sides = {"base": self.base, "head": self.head}
        failed = [f"{side}: {one.failure}" for side, one in sides.items() if one.failure]
        wrong = [
            f"{side}: its result is WRONG"
            for side, one in sides.items()
            if (one.answer or {}).get("verified") is False
        ]
        return failed + wrong


def order(number: int) -> tuple[str, str]:
    """Who comes first changes from round to round: the second may have the warmer machine."""
    return ("base", "head") if number % 2 == 0 else ("head", "base")


def pairs(
    base: Tree,
    head: Tree,
    settings: Sequence[tuple[str, str]],
    *,
    seconds: float,
    rounds: int,
    tell: Callable[[str], None],
) -> Iterator[Pair]:
    """Every workload in its setting at both commits, in every round."""
    trees = {"base": base, "head": head}
    for number in range(rounds):
        for workload, setting in settings:
            found = {side: _run(trees[side], workload, setting, seconds) for side in order(number)}
            pair = Pair(workload, number, found["base"], found["head"])
            tell(f"round {number + 1}/{rounds}  {workload} {setting}: {_in_short(pair)}")
            yield pair


def _run(tree: Tree, workload: str, setting: str, seconds: float) -> Outcome:
    asked = [workload, "--setting", setting, "--seconds", f"{seconds:g}"]
    command = [sys.executable, "-m", "benchmarks.ours", *asked]
    return measure(command, 3 * seconds + PATIENCE_S, tree.path, tree.environ())


def _in_short(pair: Pair) -> str:
    if pair.failures:
        return "; ".join(pair.failures)
    compared = figures_of([pair])
    return ", ".join(
        f"{name.removeprefix(pair.workload)[1:]} {head / base:.3f}"
        for name, [(base, head)] in compared.items()
    )


def figures_of(found: Sequence[Pair]) -> dict[str, list[tuple[float, float]]]:
    """The pairs (base, head) of every figure of every workload, by their names."""
    gathered: dict[str, list[tuple[float, float]]] = {}
    for pair in _alike(found):
        for figure in FIGURES:
            base, head = figure.of(pair.base), figure.of(pair.head)
            if base is not None and head is not None:
                gathered.setdefault(f"{pair.workload} {figure.name}", []).append((base, head))
    return gathered


def _alike(found: Sequence[Pair]) -> list[Pair]:
    """CPU time is that of the window at both commits, or that of the whole run at both."""
    if all(one.window_cpu_s is not None for pair in found for one in (pair.base, pair.head)):
        return list(found)
    return [
        replace(
            pair,
            base=replace(pair.base, window_cpu_s=None),
            head=replace(pair.head, window_cpu_s=None),
        )
        for pair in found
    ]
