"""The boards beside a plain loop, under crashes."""

import csv
from collections import Counter
from itertools import pairwise

import pytest

from examples.leaderboard.job import DATA, PLACES, build
from mainstay.testing import run


def expected():
    sums = Counter()
    with DATA.open() as file:
        for row in csv.DictReader(file):
            sums[row["league"], row["player"]] += int(row["points"])
    boards = {}
    for (league, player), points in sorted(sums.items(), key=lambda entry: (-entry[1], entry[0])):
        boards.setdefault(league, []).append((player, points))
    return {league: board[:PLACES] for league, board in boards.items()}


@pytest.mark.parametrize("seed", range(5))
def test_the_boards_are_those_of_a_plain_loop_whatever_crashes(seed):
    result = run(build, seed=seed, crashes=2, rescales=[3])
    shown = result.state("board", "shown")
    assert {k: [tuple(place) for place in board] for k, board in shown.items()} == expected()


def test_a_board_is_told_only_when_it_changes():
    boards = run(build, parallelism=1).output("out")
    for league in ("gold", "silver", "bronze"):
        told = [board for name, board in boards if name == league]
        assert all(before != after for before, after in pairwise(told))
