"""Which seed notices a planted bug.

``known_seeds.json`` names one for each test that plants a bug. It is tried first, so that the
others need not be. Seeds lose their meaning when the scheduler changes: the tests find others then,
and are slow. To note those::

    MAINSTAY_NOTE_SEEDS=found.txt make test   # or pytest -m mutation
    python -m tests.simulation.noticing found.txt
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

FILE = Path(__file__).with_name("known_seeds.json")


def is_noticed(check: Callable[[int], object], within: int) -> bool:
    """Whether a check raises for a seed below ``within``, or for the one that is known to."""
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
    for seed in _in_order(test, within):
        try:
            check(seed)
        except Exception:
            _note(test, seed)
            return True
    return False


def _in_order(test: str, within: int) -> Iterator[int]:
    known = json.loads(FILE.read_text()).get(test)
    if known is not None:
        yield known
    yield from (seed for seed in range(within) if seed != known)


def _note(test: str, seed: int) -> None:
    if path := os.environ.get("MAINSTAY_NOTE_SEEDS"):
        with open(path, "a") as notes:
            notes.write(f"{json.dumps([test, seed])}\n")


def main(path: str) -> None:
    """Put what was noted into the file."""
    known = json.loads(FILE.read_text())
    known |= dict(json.loads(line) for line in Path(path).read_text().splitlines())
    FILE.write_text(f"{json.dumps(known, indent=1, sort_keys=True)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
