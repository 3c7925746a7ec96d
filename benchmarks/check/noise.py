"""What two versions differ by, beside what chance does: the signed-rank interval of paired ratios.

Both versions run in every round, so what makes a round slow makes both slow, and what is compared
is the logarithm of their ratio. If the versions are equal, which of the two is ahead in a round is
a coin's toss, and the ratio is as likely to be *r* as *1/r*. Nothing more is assumed: no normal
distribution, no known spread.

The estimate is the median of the means of all pairs of rounds (Hodges and Lehmann), the interval
is what Wilcoxon's signed-rank test does not refuse. Its confidence is exact for every number of
rounds, because the distribution of the rank sum is counted and not approximated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio, and the ratios that are not refused by what was seen."""

    low: float
    estimate: float
    high: float

    @property
    def excludes_one(self) -> bool:
        """Whether chance alone is no explanation."""
        return self.low > 1 or self.high < 1


def interval(ratios: Sequence[float], doubt: float) -> Interval:
    """The ratio behind ``ratios``, one of each round; it is outside with this probability at most.

    Where the rounds are too few for so little doubt, the interval has no ends.
    """
    if not ratios or min(ratios) <= 0:
        raise ValueError(f"ratios are positive and there is one at least, not {list(ratios)}")
    means = _pair_means([math.log(ratio) for ratio in ratios])
    cut = _left_off(len(ratios), doubt)
    estimate = math.exp(statistics.median(means))
    if cut == 0:
        return Interval(0.0, estimate, math.inf)
    return Interval(math.exp(means[cut - 1]), estimate, math.exp(means[-cut]))


def rounds_needed(doubt: float) -> int:
    """With fewer rounds no result at all could be told from chance with so little doubt."""
    if not 0 < doubt < 1:
        raise ValueError(f"doubt is a probability between 0 and 1, not {doubt}")
    return math.ceil(1 - math.log2(doubt))


def _pair_means(values: Sequence[float]) -> list[float]:
    """The mean of every two values, and of every value with itself, in order."""
    return sorted((a + b) / 2 for at, a in enumerate(values) for b in values[at:])


def _left_off(rounds: int, doubt: float) -> int:
    """The largest *k* for which the *k*-th mean from either end still bounds the interval."""
    allowed = doubt / 2 * 2**rounds
    below = 0
    for rank_sum, ways in enumerate(_ways(rounds)):
        below += ways
        if below > allowed:
            return rank_sum
    raise AssertionError("all ways together are more than any part of them")


def _ways(rounds: int) -> list[int]:
    """How many of the equally likely outcomes have each sum of the ranks that are ahead."""
    ways = [1]
    for rank in range(1, rounds + 1):
        longer = ways + [0] * rank
        for at, number in enumerate(ways):
            longer[at + rank] += number
        ways = longer
    return ways
