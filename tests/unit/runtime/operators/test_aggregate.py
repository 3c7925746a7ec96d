"""Aggregating operators: what they gather, when they let go of it, and when combining pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.errors import StateTypeError
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators import gathering
from mainstay.runtime.operators.aggregate import PASSED_ON
from mainstay.runtime.operators.base import OperatorContext
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.spec import KeySpec
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.testing import rows
from tests.unit.runtime.conftest import FakeClock

SCHEMA = "k long, v long"


class Opened:
    """The combiner and the fold of a job, each by itself, and what they have emitted."""

    def __init__(self, senders: int = 2) -> None:
        self.clock = FakeClock()
        env = ms.Environment(parallelism=senders)
        keyed = env.source(rows(SCHEMA, []), uid="in").key_by("k")
        keyed.aggregate(total=ms.sum("v"), n=ms.count(), uid="totals").sink(
            ms.connectors.Memory(), uid="out"
        )
        by_name = {spec.name: spec for _, spec in env.plan().operators()}
        self.emitted: dict[str, list[pa.RecordBatch]] = {"combine": [], "aggregate": []}
        self.operators = {
            name: self._open(by_name[name]) for name in self.emitted if name in by_name
        }

    def _open(self, spec: Any) -> Any:
        operator = spec.factory.build()
        operator.out = self.emitted[spec.name].append
        ctx = ProcessContext(spec.uid, 0, 1)
        key: KeySpec | None = spec.key
        keyed = None if key is None else HeapBackend(spec.states, key.type, 128, ctx)
        unused: Any = None
        operator.open(
            OperatorContext(spec.uid, 0, 1, 1, "job", self.clock, unused, unused, ctx, keyed)
        )
        return operator

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for batch in self.emitted[name] for row in batch.to_pylist()]


def orders(*pairs: tuple[int, int]) -> pa.RecordBatch:
    keys, values = zip(*pairs, strict=True)
    return pa.record_batch({"k": pa.array(keys), "v": pa.array(values)})


def test_rows_are_held_back_until_the_worker_is_idle() -> None:
    job = Opened()
    combine = job.operators["combine"]
    combine.process(orders((1, 10), (2, 20)), 0)
    combine.process(orders((1, 30)), 0)
    assert job.rows("combine") == []
    assert combine.flush()
    assert sorted(job.rows("combine")) == [(1, 40, 2), (2, 20, 1)]
    assert not combine.flush()


def test_under_load_rows_are_held_back_for_a_while_and_no_longer() -> None:
    job = Opened()
    combine = job.operators["combine"]
    combine.process(orders((1, 10)), 0)
    job.clock.advance(gathering.LINGER_S * 0.9)
    combine.process(orders((1, 30)), 0)
    assert not combine.flush(idle=False)
    job.clock.advance(gathering.LINGER_S * 0.11)
    assert combine.flush(idle=False)
    assert job.rows("combine") == [(1, 40, 2)]


@pytest.mark.parametrize("name", ["combine", "aggregate"])
@pytest.mark.parametrize("end", ["marker", "end of input"])
def test_nothing_is_held_back_at_a_marker_or_at_the_end(name: str, end: str) -> None:
    job = Opened()
    operator = job.operators[name]
    batch = orders((1, 10), (1, 30))
    if name == "aggregate":
        batch = batch.append_column("n", pa.array([1, 1]))
    operator.process(batch, 0)
    operator.before_marker(Epoch(1)) if end == "marker" else operator.end_of_input()
    assert job.rows(name) == [(1, 40, 2)]


def test_enough_rows_go_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "GATHERED_ROWS", 3)
    job = Opened()
    job.operators["combine"].process(orders((1, 1), (1, 2)), 0)
    assert job.rows("combine") == []
    job.operators["combine"].process(orders((1, 3)), 0)
    assert job.rows("combine") == [(1, 6, 3)]


def test_empty_batches_emit_nothing() -> None:
    job = Opened()
    combine = job.operators["combine"]
    combine.process(orders((1, 1)).slice(1), 0)
    assert not combine.flush()
    assert job.rows("combine") == []


def test_a_key_gets_one_row_for_each_batch_that_touches_it() -> None:
    job = Opened(senders=1)
    fold = job.operators["aggregate"]
    for batch in (orders((1, 1), (2, 2), (1, 3)), orders((2, 5))):
        fold.process(batch, 0)
        fold.flush()
    assert sorted(job.rows("aggregate")) == [(1, 4, 2), (2, 2, 1), (2, 7, 2)]


def test_one_sender_and_one_receiver_need_no_combiner() -> None:
    assert "combine" not in Opened(senders=1).operators
    assert "combine" in Opened(senders=2).operators


def test_rows_of_too_many_keys_are_passed_on_without_grouping() -> None:
    job = Opened()
    combine = job.operators["combine"]
    many = pa.record_batch({"k": pa.array(np.arange(100)), "v": pa.array(np.arange(100))})
    grouped: list[int] = []
    right = combine._grouper.group
    combine._grouper.group = lambda keys: grouped.append(len(keys)) or right(keys)
    for _ in range(PASSED_ON + 1):
        combine.process(many, 0)
        combine.flush()
    assert grouped == [100]
    few = orders(*[(1, 1)] * 10)
    for _ in range(2):
        combine.process(few, 0)
        combine.flush()
    assert grouped == [100, 10, 10]
    assert job.rows("combine")[-2:] == [(1, 10, 10), (1, 10, 10)]
    assert len(job.rows("combine")) == 100 * (PASSED_ON + 1) + 2


@pytest.mark.parametrize("name", ["combine", "aggregate"])
def test_a_sum_beyond_a_long_names_operator_aggregate_and_key(name: str) -> None:
    job = Opened()
    batch = orders((1, 1), (77, 1 << 62), (77, 1 << 62))
    if name == "aggregate":
        batch = batch.append_column("n", pa.array([1, 1, 1]))
    job.operators[name].process(batch, 0)
    message = r"operator 'totals': the sum 'total' of key 77 does not fit the type long"
    with pytest.raises(StateTypeError, match=message):
        job.operators[name].flush()
