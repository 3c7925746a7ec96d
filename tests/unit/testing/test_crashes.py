"""What a test with crashes is for: it finds what a job keeps outside of its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import rows, run


class Forgetful(ms.KeyedProcess):
    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}

    def process(self, row: Any, ctx: Any) -> Iterator[Any]:
        self.counts[ctx.key] = self.counts.get(ctx.key, 0) + 1
        yield ctx.key, self.counts[ctx.key]


@pytest.mark.parametrize("count", [100, 500])
def test_crashes_find_a_count_that_no_snapshot_holds_also_in_a_short_job(count: int) -> None:
    def build(env: ms.Environment) -> None:
        clicks = env.source(rows("user string", [("alice",)] * count), uid="clicks")
        counts = clicks.key_by("user").process(Forgetful(), "user string, n long", uid="counts")
        counts.sink(ms.connectors.Memory(), uid="out")

    assert max(run(build).output("out")) == ("alice", count)
    found = [max(run(build, seed=seed, crashes=3).output("out")) for seed in range(15)]
    assert any(total < count for _, total in found)
