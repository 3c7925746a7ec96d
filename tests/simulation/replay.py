"""Replays one seed and tells its story: ``python -m tests.simulation.replay SEED [KIND]``.

The kind is one of those of ``Scenario``: of, of_terms, of_rivals, looped, unaligned, started_again.
"""

from __future__ import annotations

import sys

from tests.simulation.checks import check
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario, drawn


def main(seed: int, kind: str = "of") -> None:
    scenario = drawn(getattr(Scenario, kind)(seed))
    print(scenario)
    outcome = play(scenario)
    print(outcome.simulation.story(lines=10_000))
    check(outcome)
    print(f"seed {seed}: every check holds")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
