"""Every event goes on once, whatever is sent again and whatever crashes."""

import json
from datetime import datetime, timezone

import pytest

from examples.deduplication.job import DATA, EVENT, build
from mainstay.testing import rows, run

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def test_an_event_that_comes_again_is_left_out():
    events = [("a", NOON, 5), ("b", NOON, 3), ("a", NOON, 5)]
    result = run(build, {"events": rows(EVENT, events)})
    assert sorted(result.output("out")) == [("a", NOON, 5), ("b", NOON, 3)]


@pytest.mark.parametrize("seed", range(5))
def test_every_event_of_the_file_goes_on_once_whatever_crashes(seed):
    sent = [json.loads(line)["id"] for line in DATA.read_text().splitlines()]
    result = run(build, seed=seed, crashes=2, rescales=[3])
    assert sorted(row[0] for row in result.output("out")) == sorted(set(sent))
    assert len(set(sent)) < len(sent)
