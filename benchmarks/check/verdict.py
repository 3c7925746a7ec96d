"""What is said of a figure: worse, better, unchanged, or too noisy to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.check.noise import Interval, interval, rounds_needed

DOUBT = 0.01
"""How often a check of two equal commits may find any difference at all, over all its figures."""
LEAST = 0.03
"""A smaller change is not spoken of, however sure it is: code that only moved makes it."""
WIDE = 0.10
"""When a change of so much would still fit, that none was found says little."""

WORSE, BETTER, UNCHANGED, NOISY = "worse", "better", "no change", "too noisy"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure at the head over the same at the base; a ratio of 1.2 is a fifth more."""

    ratio: Interval
    is_better_high: bool
    rounds: int

    @property
    def word(self) -> str:
        ratio = self.ratio
        if ratio.excludes_one and abs(ratio.estimate - 1) >= LEAST:
            return BETTER if (ratio.estimate > 1) == self.is_better_high else WORSE
        is_narrow = ratio.low > 1 - WIDE and ratio.high < 1 + WIDE
        return UNCHANGED if is_narrow else NOISY


def verdicts(
    pairs: Mapping[str, Sequence[tuple[float, float]]], is_better_high: Mapping[str, bool]
) -> dict[str, Verdict]:
    """A verdict on each figure, from its pairs of (base, head), one of each round.

    The doubt is shared among the figures, so more of them do not make more false alarms.
    """
    return {
        name: Verdict(
            interval([head / base for base, head in own], DOUBT / len(pairs)),
            is_better_high[name],
            len(own),
        )
        for name, own in pairs.items()
    }


def rounds_for(figures: int) -> int:
    """Rounds for a check of so many figures; a few may be odd, and a change still shows."""
    return rounds_needed(DOUBT / figures) + 2
