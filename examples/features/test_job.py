"""The features beside a plain loop, under crashes; and the questions that are asked of them."""

import json
from collections import Counter, defaultdict

import pytest

import mainstay as ms
from examples.features.job import DATA, SUMMARY, build, features_of
from mainstay.testing import run


def expected():
    spent, purchases = Counter(), Counter()
    categories = defaultdict(Counter)
    for line in DATA.read_text().splitlines():
        row = json.loads(line)
        spent[row["customer"]] += row["cents"]
        purchases[row["customer"]] += 1
        categories[row["customer"]][row["category"]] += 1
    favourite = {
        customer: min(counts, key=lambda name: (-counts[name], name))
        for customer, counts in categories.items()
    }
    return spent, purchases, favourite


@pytest.mark.parametrize("seed", range(5))
def test_the_features_are_those_of_a_plain_loop_whatever_crashes(seed):
    result = run(build, seed=seed, crashes=2, rescales=[3])
    spent, purchases, favourite = expected()
    assert result.state("features", "spent") == dict(spent)
    assert result.state("features", "purchases") == dict(purchases)
    assert result.state("features", "favourite") == favourite


def test_a_model_and_an_analyst_are_answered_from_one_epoch(tmp_path):
    pytest.importorskip("duckdb")
    env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(tmp_path))
    build(env)
    env.start("features").wait(60)
    state, (spent, purchases, favourite) = ms.connect(tmp_path), expected()
    assert features_of(state, "c005") == {
        "purchases": purchases["c005"],
        "spent": spent["c005"],
        "favourite": favourite["c005"],
    }
    assert features_of(state, "nobody") is None
    counted = {row["favourite"]: row["customers"] for row in state.sql(SUMMARY).to_pylist()}
    assert counted == Counter(favourite.values())
