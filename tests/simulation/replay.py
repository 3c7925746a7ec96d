"""Replays one seed and tells its story: ``python -m tests.simulation.replay SEED``."""

from __future__ import annotations

import sys

from tests.simulation.scenarios import Scenario, check, drawn, play


def main(seed: int) -> None:
    scenario = drawn(Scenario.of(seed))
    print(scenario)
    outcome = play(scenario)
    print(outcome.simulation.story(lines=10_000))
    check(outcome)
    print(f"seed {seed}: every check holds")


if __name__ == "__main__":
    main(int(sys.argv[1]))
