"""Which seed notices a planted bug.

``known_seeds.json`` names one for each test that plants a bug. It is tried first, so that the
others need not be. Seeds lose their meaning when the scheduler changes: the tests find others then,
and are slow. To note those::

    MAINSTAY_NOTE_SEEDS=found.txt make test   # or pytest -m mutation
    python -m tests.simulation.noticing found.txt

Some seeds take many times as long as others. ``MAINSTAY_SEED_S=1`` beside the first of these gives
up every seed that takes more than a second of the processor, the known one too, and so finds a
cheaper one. A test for which there is none fails then: try it with more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("known_seeds.json")
LIMIT_S = float(os.environ.get("MAINSTAY_SEED_S", "0"))
"""How long a seed may take; 0 is as long as it likes."""


class _TooSlowError(BaseException):
    """No ``Exception``, so that it is not taken for the bug."""


def is_noticed(check: Callable[[int], object], within: int) -> bool:
    """Whether a check raises for a seed below ``within``, or for the one that is known to."""
    test = os.environ["PYTEST_CURRENT_TEST"].removesuffix(" (call)")
    for seed in _in_order(test, within):
        try:
            with _at_most(LIMIT_S):
                check(seed)
        except _TooSlowError:
            continue
        except Exception:
            _note(test, seed)
            return True
    return False


def _in_order(test: str, within: int) -> Iterator[int]:
    known = json.loads(FILE.read_text()).get(test)
    if known is not None:
        yield known
    yield from (seed for seed in range(within) if seed != known)


@contextmanager
def _at_most(limit_s: float) -> Iterator[None]:
    """Give up what takes more time of the processor, also where it takes that for an error."""
    is_over = False

    def give_up(*_: Any) -> None:
        nonlocal is_over
        is_over = True
        raise _TooSlowError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        if is_over:
            raise _TooSlowError


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
