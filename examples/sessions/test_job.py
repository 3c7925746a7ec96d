"""Sessions by hand, and the whole file beside a plain loop, under crashes."""

import json
from datetime import datetime, timedelta, timezone

import pytest

from examples.sessions.job import CLICK, DATA, GAP, build
from mainstay.testing import rows, run

NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def test_half_an_hour_without_a_click_ends_a_session():
    minutes = [0, 10, 41, 42]
    clicks = [("v", NOON + timedelta(minutes=m), "/") for m in minutes]
    result = run(build, {"clicks": rows(CLICK, clicks)})
    assert result.output("out") == [("v", NOON, 600, 2, False)]
    assert result.state("sessions", "open_session")["v"].clicks == 2


def expected():
    """Where a plain loop over the file begins and ends sessions: the number that are over."""
    last, over = {}, 0
    for line in DATA.read_text().splitlines():
        click = json.loads(line)
        at = datetime.fromisoformat(click["at"].replace("Z", "+00:00"))
        over += click["visitor"] in last and at - last[click["visitor"]] > GAP
        last[click["visitor"]] = at
    return over, len(last)


@pytest.mark.parametrize("seed", range(5))
def test_crashes_and_a_rescale_change_nothing(seed):
    result = run(build, seed=seed, crashes=2, rescales=[3])
    still_open = result.state("sessions", "open_session")
    assert (len(result.output("out")), len(still_open)) == expected()
