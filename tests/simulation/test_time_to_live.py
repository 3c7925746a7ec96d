"""States with a time to live under crashes, rescales and reordering.

Beside each such state the function keeps what it wrote, and when, in states that never expire: what
it reads must be just what has not expired of that, at every row, whatever was swept, compacted,
lost and restored in between.
"""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.runtime.worker import expiry
from mainstay.testing import rows, run
from tests.simulation.seeds import in_chunks

TTL_MS = 6
VALUES = [("abcdefg"[(n * n) % 7], n) for n in range(600)]


class Checked(ms.KeyedProcess):
    value = ms.ValueState("long", ttl=f"{TTL_MS}ms")
    session = ms.ValueState("long", ttl=ms.Ttl(f"{TTL_MS}ms", update="read"))
    items = ms.ListState("long", ttl=f"{TTL_MS}ms")
    entries = ms.MapState("long", "long", ttl=f"{TTL_MS}ms")
    written = ms.ListState("struct<n:long,at:long>")
    touched = ms.ValueState("struct<n:long,at:long>")

    def process(self, row: Any, ctx: Any) -> Any:
        now = ctx.now_us()
        horizon = now - TTL_MS * 1000
        written = self.written.get() or []
        alive = [each.n for each in written if each.at > horizon]
        assert (self.items.get() or []) == alive
        assert dict(self.entries.items()) == {n: n for n in alive}
        assert self.value.get() == (alive[-1] if alive else None)
        touched = self.touched.get()
        is_there = touched is not None and touched.at > horizon
        assert self.session.get() == (touched.n if is_there else None)
        self.value.update(row.n)
        self.items.add(row.n)
        self.entries.put(row.n, row.n)
        if not is_there or row.n % 3 == 0:
            self.session.update(row.n)
            self.touched.update((row.n, now))
        else:
            # Reading has prolonged it.
            self.touched.update((touched.n, now))
        self.written.add((row.n, now))
        yield ctx.key, len(written), len(alive)


def build(env: ms.Environment) -> None:
    stream = env.source(rows("k string, n long", VALUES, splits=4), uid="in")
    stream.key_by("k").process(Checked(), "k string, written long, alive long", uid="checked").sink(
        ms.connectors.Memory(), uid="out"
    )


@pytest.fixture(autouse=True)
def _swept_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """These jobs are over in less than a second of their own time."""
    monkeypatch.setattr(expiry, "SHORTEST_REST_S", 0.002)
    monkeypatch.setattr(expiry, "PAUSE_S", 0.001)
    monkeypatch.setattr(expiry, "SLICE_ELEMENTS", 5)


@pytest.mark.parametrize("seed", in_chunks(12, 1, suite=3))
def test_nothing_expired_is_ever_read_and_nothing_else_is_missing(seed: int) -> None:
    result = run(build, parallelism=1 + seed % 3, seed=seed, crashes=seed % 4)
    out = result.output("out")
    assert len(out) == len(VALUES)
    # Both happen, or nothing was tested.
    assert any(alive < written for _, written, alive in out)
    assert any(alive for _, _, alive in out)


def test_a_run_is_a_function_of_its_seed() -> None:
    first, second = (run(build, parallelism=2, seed=5, crashes=2) for _ in range(2))
    assert first.output("out") == second.output("out")
