"""Of what a subtask is sent it takes exactly what it would take of all in-flight rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mainstay.runtime.deployment import InFlight
from mainstay.runtime.feedback_log import bytes_of
from mainstay.runtime.spec import Broadcast, Forward, HashByKey, KeySpec, Partitioning, Rebalance
from mainstay.runtime.worker.replays import own_rows, shares_of
from mainstay.state.keygroups import range_of
from mainstay.state.values import ValueType

BY_KEY = HashByKey(KeySpec((1,), ValueType.of("string"), ("key",)))
MOST = 16

partitionings: st.SearchStrategy[Partitioning] = st.sampled_from(
    [BY_KEY, Broadcast(), Forward(), Rebalance()]
)


@st.composite
def in_flight(draw: st.DrawFn) -> list[InFlight]:
    units = []
    for place in range(draw(st.integers(0, 6))):
        keys = draw(st.lists(st.one_of(st.none(), st.text(max_size=2)), min_size=1, max_size=9))
        ids = pa.array(range(100 * place, 100 * place + len(keys)))
        batch = pa.record_batch([ids, pa.array(keys, pa.string())], names=["id", "key"])
        sender = draw(st.integers(0, 5))
        rows = bytes_of([batch])
        units.append(InFlight(f"edge-{place}", 0, sender, draw(partitionings), rows, place))
    return units


def taken(units: tuple[InFlight, ...] | list[InFlight], subtask: int, parallelism: int) -> object:
    groups = range_of(subtask, parallelism, MOST)
    found = own_rows(units, subtask, parallelism, groups, MOST)
    return [(unit.edge, batch.column("id").to_pylist()) for unit, batch in found]


@given(in_flight(), st.integers(1, 5))
def test_a_share_has_all_that_its_subtask_takes(units: list[InFlight], parallelism: int) -> None:
    shares = shares_of(units, parallelism, MOST)
    for subtask in range(parallelism):
        assert taken(shares[subtask], subtask, parallelism) == taken(units, subtask, parallelism)


@given(in_flight(), st.integers(1, 5))
def test_what_goes_by_key_is_sent_once(units: list[InFlight], parallelism: int) -> None:
    keyed = [unit for unit in units if unit.partitioning == BY_KEY]
    sent = [
        row
        for subtask, share in enumerate(shares_of(keyed, parallelism, MOST))
        for _, ids in taken(share, subtask, parallelism)  # type: ignore[attr-defined]
        for row in ids
    ]
    assert len(sent) == len(set(sent))
    total = sum(len(ids) for p in [1] for _, ids in taken(keyed, 0, p))  # type: ignore[attr-defined]
    assert len(sent) == total
