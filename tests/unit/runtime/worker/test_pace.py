"""A slice that takes too long stops in its middle, and nothing passes what is left of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.runtime.messages import AssignSplits, Attempt, Epoch, Trigger
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.spec import Tuning
from mainstay.runtime.worker.pace import Pace
from mainstay.testing import rows as rows_of
from mainstay.testing import run
from tests.unit.runtime.conftest import FakeClock


class Slow(Operator):
    """Calls a function for each row; what it has called, it emits."""

    max_slice_rows = 2048

    def __init__(self, clock: FakeClock, each_s: float) -> None:
        self.clock, self.each_s = clock, each_s
        self.seen: list[int] = []
        self.out: Any = lambda batch: None

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        taken = []
        for value in self.pieces(batch.column(0).to_pylist()):
            self.clock.advance(self.each_s)
            taken.append(value)
        self.seen += taken
        self.out(pa.record_batch([pa.array(taken, pa.int64())], names=["n"]))


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["n"])


def test_a_function_of_ten_milliseconds_gives_way_within_half_a_second() -> None:
    clock = FakeClock()
    pace, slow = Pace(clock), Slow(clock, 0.01)
    take = pace.into(slow, 0)
    started = clock.now
    pace.begin(started)
    take(numbers(*range(2048)), 0)
    assert clock.now - started <= 0.5
    steps = []
    while pace.has_rest:
        started = clock.now
        pace.begin(started)
        pace.resume(1024)
        steps.append(clock.now - started)
    assert slow.seen == list(range(2048)), "every row once, in order"
    assert max(steps) <= 0.5


def test_a_quick_function_is_not_interrupted() -> None:
    clock = FakeClock()
    pace, quick = Pace(clock), Slow(clock, 1e-6)
    take = pace.into(quick, 0)
    pace.begin(clock.now)
    take(numbers(*range(2048)), 0)
    assert quick.seen == list(range(2048))
    assert not pace.has_rest


def test_what_is_done_before_a_marker_is_done_to_its_end() -> None:
    clock = FakeClock()
    pace, slow = Pace(clock), Slow(clock, 1.0)
    take = pace.into(slow, 0)
    take(numbers(*range(100)), 0)
    assert slow.seen == list(range(100)), "no time was set"
    pace.begin(clock.now)
    take(numbers(*range(100)), 0)
    pace.finish(10)
    assert slow.seen == 2 * list(range(100))


def test_rows_that_come_meanwhile_wait_behind_what_is_left() -> None:
    clock = FakeClock()
    pace, first, second = Pace(clock), Slow(clock, 0.0), Slow(clock, 0.05)
    into_second = pace.into(second, 1)
    first.out = lambda batch: into_second(batch, 0)
    into_first = pace.into(first, 0)
    for start in range(0, 300, 100):
        pace.begin(clock.now)
        into_first(numbers(*range(start, start + 100)), 0)
    while pace.has_rest:
        pace.begin(clock.now)
        pace.resume(30)
    assert first.seen == second.seen == list(range(300))


def test_a_source_reads_again_what_its_chain_has_not_taken(world: Any, start_worker: Any) -> None:
    """The epoch does not wait for the slice, and event time knows nothing of its rows."""
    called: list[int] = []
    clock = world.clock

    def turns_slow(row: Any) -> Any:
        called.append(row.n)
        if row.n >= 100:
            clock.advance(0.01)
        return row

    env = ms.Environment(parallelism=1)
    source = rows_of("n long", [(n,) for n in range(1000)], splits=1)
    env.source(source, uid="in").map(turns_slow, "n long", uid="slow").sink(Memory(), uid="out")
    run = start_worker(world, env.plan())
    (task,) = run.worker.tasks
    task.members[1].operator._function = turns_slow
    run.receive(AssignSplits(Attempt(1), "in", 0, tuple(source.plan(frozenset())), True))
    while len(called) <= 100:
        run.worker.step()
    before = clock.now
    run.receive(Trigger(Attempt(1), Epoch(1)))
    assert clock.now == before, "the cut waits for no row"
    (unit,) = task.members[0].lists["splits"].get()
    assert f'"skip": {len(called)}' in unit or f'"offset": {len(called)}' in unit
    while not task.ended:
        assert run.worker.step()
    assert called == list(range(1000))


class Twice(ms.KeyedProcess):
    def process(self, row: Any, ctx: Any) -> Any:
        yield (row.n,)
        yield (row.n,)


class TwiceOfBoth(ms.CoKeyedProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        return [(row.n,), (row.n,)]

    def process_right(self, row: Any, ctx: Any) -> Any:
        return (-row.n,)


ROW_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda s: s.filter(lambda row: row.n % 3 != 0, uid="f"),
    "flat_map": lambda s: s.flat_map(lambda row: [row, row], "n long", uid="f"),
    "two in a chain": lambda s: s.map(lambda row: row, "n long", uid="f").map(
        lambda row: row, "n long", uid="g"
    ),
    "process": lambda s: s.key_by("n").process(Twice(), "n long", uid="f"),
    "key function": lambda s: s.key_by(lambda row: row.n % 5, "long").process(
        Twice(), "n long", uid="f"
    ),
    "connect": lambda s: (
        s.key_by("n").connect(s.broadcast()).process(TwiceOfBoth(), "n long", uid="f")
    ),
}


@pytest.mark.parametrize("kind", ROW_FUNCTIONS)
def test_every_function_of_a_row_can_be_interrupted(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is left after each row, with crashes and snapshots in between."""

    def program(env: ms.Environment) -> None:
        source = rows_of("n long", [(n,) for n in range(200)], splits=2)
        ROW_FUNCTIONS[kind](env.source(source, uid="in")).sink(Memory(), uid="out")

    whole = sorted(run(program).output("out"))
    tuning = partial(Tuning, slice_limit_s=0.0, first_piece_rows=1)
    monkeypatch.setattr(sys.modules["mainstay.testing.run"], "Tuning", tuning)
    for seed in range(3):
        assert sorted(run(program, seed=seed, crashes=seed).output("out")) == whole
