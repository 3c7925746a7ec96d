"""Replays one seed and tells its story: ``python -m tests.simulation.replay SEED [KIND] [brief]``.

The kind is one of those of ``Scenario``: of, of_terms, of_rivals, looped, unaligned, started_again,
compiled, compiled_unaligned.
Seeds of the lists that only the soak plays are brief.
"""

from __future__ import annotations

import sys

from tests.simulation.checks import check
from tests.simulation.playing import play
from tests.simulation.scenarios import Scenario, briefly, drawn


def main(seed: int, kind: str = "of", length: str = "") -> None:
    scenario = getattr(Scenario, kind)(seed)
    scenario = drawn(briefly(scenario) if length == "brief" else scenario)
    print(scenario)
    outcome = play(scenario)
    print(outcome.simulation.story(lines=10_000))
    check(outcome)
    print(f"seed {seed}: every check holds")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
