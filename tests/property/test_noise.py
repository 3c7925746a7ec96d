"""Two equal versions are hardly ever called different, and one that is a fifth slower is found."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.check.noise import Interval, interval, rounds_needed
from benchmarks.check.verdict import DOUBT, WORSE, rounds_for, verdicts

RATIOS = st.lists(st.floats(0.2, 5.0), min_size=1, max_size=16)
DOUBTS = st.floats(0.0005, 0.3)
TRIALS = 2000

Noise = Callable[[random.Random, int], float]
"""How much slower a run is than the machine's best, by the number of its round."""
NOISES: dict[str, Noise] = {
    "small": lambda chance, number: math.exp(chance.gauss(0, 0.02)),
    "large": lambda chance, number: math.exp(chance.gauss(0, 0.3)),
    "spikes": lambda chance, number: 1 + (3 if chance.random() < 0.2 else 0) + chance.random() / 50,
    "heavy tails": lambda chance, number: 1 + chance.paretovariate(1.1),
    "drift": lambda chance, number: (1 + number / 5) * math.exp(chance.gauss(0, 0.05)),
    "two speeds": lambda chance, number: chance.choice((1.0, 2.0)) + chance.random() / 50,
}


def close(one: Interval, other: Interval) -> bool:
    ends = [(one.low, other.low), (one.estimate, other.estimate), (one.high, other.high)]
    return all(a == b or math.isclose(a, b, rel_tol=1e-9) for a, b in ends)


@given(RATIOS, DOUBTS)
def test_an_interval_holds_its_estimate(ratios: list[float], doubt: float) -> None:
    found = interval(ratios, doubt)
    assert found.low <= found.estimate <= found.high


@given(RATIOS, DOUBTS)
def test_exchanged_versions_have_the_inverse_interval(ratios: list[float], doubt: float) -> None:
    found, exchanged = interval(ratios, doubt), interval([1 / each for each in ratios], doubt)
    low = 0.0 if math.isinf(found.high) else 1 / found.high
    high = math.inf if found.low == 0 else 1 / found.low
    assert close(exchanged, Interval(low, 1 / found.estimate, high))


@given(RATIOS, DOUBTS, st.floats(0.1, 10.0))
def test_a_factor_in_every_round_is_one_in_the_interval(
    ratios: list[float], doubt: float, factor: float
) -> None:
    found, scaled = interval(ratios, doubt), interval([each * factor for each in ratios], doubt)
    expected = Interval(found.low * factor, found.estimate * factor, found.high * factor)
    assert close(scaled, expected)


@given(RATIOS, DOUBTS, st.randoms(use_true_random=False))
def test_the_order_of_the_rounds_does_not_matter(
    ratios: list[float], doubt: float, chance: random.Random
) -> None:
    found = interval(ratios, doubt)
    chance.shuffle(ratios)
    assert close(interval(ratios, doubt), found)


@given(RATIOS, DOUBTS, DOUBTS)
def test_less_doubt_is_no_narrower(ratios: list[float], one: float, other: float) -> None:
    sure, unsure = interval(ratios, min(one, other)), interval(ratios, max(one, other))
    assert sure.low <= unsure.low
    assert sure.high >= unsure.high


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=9, unique=True), DOUBTS)
def test_of_all_equally_likely_outcomes_no_more_than_the_doubt_excludes_one(
    sizes: list[float], doubt: float
) -> None:
    """Equal versions: every ratio is as likely as its inverse. So all outcomes can be counted."""
    outcomes = list(itertools.product((1, -1), repeat=len(sizes)))
    excluding = sum(
        interval(
            [math.exp(sign * size) for sign, size in zip(signs, sizes, strict=True)], doubt
        ).excludes_one
        for signs in outcomes
    )
    assert excluding <= doubt * len(outcomes)


@given(DOUBTS)
def test_as_many_rounds_as_are_needed_can_tell_and_one_less_cannot(doubt: float) -> None:
    rounds = rounds_needed(doubt)
    assert interval([1.2] * rounds, doubt).excludes_one
    assert not interval([1.2] * (rounds - 1), doubt).excludes_one if rounds > 1 else True


def paired(
    noise: Noise, chance: random.Random, rounds: int, slower: float = 1.0
) -> list[tuple[float, float]]:
    """Runs of two versions in turn, each first in every other round; figures are costs."""
    found = []
    for number in range(rounds):
        first, second = noise(chance, 2 * number), noise(chance, 2 * number + 1)
        base, head = (first, second) if number % 2 == 0 else (second, first)
        found.append((base, head * slower))
    return found


def share_called_worse(
    noise: Noise, slower: float, seed: int, words: Sequence[str], trials: int
) -> float:
    chance, called = random.Random(seed), 0
    rounds = rounds_for(3)
    for _ in range(trials):
        pairs = {name: paired(noise, chance, rounds, slower) for name in ("cpu", "memory", "p50")}
        found = verdicts(pairs, dict.fromkeys(pairs, False))
        called += any(verdict.word in words for verdict in found.values())
    return called / trials


@pytest.mark.parametrize("name", NOISES)
def test_two_equal_versions_are_almost_never_called_different(name: str) -> None:
    found = share_called_worse(NOISES[name], 1.0, 20261, ("worse", "better"), TRIALS)
    # Three standard deviations above what is allowed, for so many trials.
    assert found <= DOUBT + 3 * math.sqrt(DOUBT * (1 - DOUBT) / TRIALS)


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.05])
def test_a_fifth_slower_is_found(spread: float) -> None:
    def noise(chance: random.Random, number: int) -> float:
        return math.exp(chance.gauss(0, spread))

    assert share_called_worse(noise, 1.2, 20262, (WORSE,), 500) > 0.99


def test_a_fifth_slower_is_found_nine_times_of_ten_beside_drift_and_spikes() -> None:
    def noise(chance: random.Random, number: int) -> float:
        spike = 1.0 if chance.random() < 0.05 else 0.0
        return (1 + number / 50) * math.exp(chance.gauss(0, 0.03)) + spike

    assert share_called_worse(noise, 1.2, 20263, (WORSE,), 500) > 0.9
