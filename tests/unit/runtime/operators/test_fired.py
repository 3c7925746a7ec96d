"""How far an operator has fired, by key-group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.operators.fired import NEVER, FiredTimes
from mainstay.runtime.own_states import FIRED
from mainstay.state.hashing import key_groups
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.operator import OperatorList
from mainstay.state.redistribution import redistribute

MOST = 16


class Context:
    """What it needs of an operator's context."""

    def __init__(self, first: int, last: int, units: Any = None) -> None:
        self.groups, self.max_parallelism = KeyGroupRange(first, last), MOST
        self.lists = {FIRED.name: OperatorList(FIRED)}
        if units is not None:
            self.lists[FIRED.name].restore(units[FIRED.name])

    def stored(self) -> dict[str, Any]:
        handle = self.lists[FIRED.name]
        return {FIRED.name: handle.encode(handle.copy_units())}


def test_nothing_has_fired_at_first() -> None:
    fired = FiredTimes(Context(0, 15))  # type: ignore[arg-type]
    assert fired.lowest == fired.highest == NEVER
    assert fired.of(pa.array([1, 2])) == NEVER


def test_time_never_goes_back() -> None:
    fired = FiredTimes(Context(0, 15))  # type: ignore[arg-type]
    fired.advance(10)
    fired.advance(5)
    assert fired.lowest == 10


def test_a_rescale_keeps_how_far_each_key_group_was() -> None:
    old = [Context(0, 7), Context(8, 15)]
    for context, time in zip(old, (10, 20), strict=True):
        fired = FiredTimes(context)  # type: ignore[arg-type]
        fired.advance(time)
        fired.store()
    shares = redistribute([context.stored() for context in old], 3)
    middle = Context(6, 10, shares[1])
    fired = FiredTimes(middle)  # type: ignore[arg-type]
    assert (fired.lowest, fired.highest) == (10, 20)
    keys = pa.array(range(200))
    groups = key_groups([keys], MOST)
    own = keys.filter(pa.array((groups >= 6) & (groups <= 10)))
    expected = np.where(key_groups([own], MOST) <= 7, 10, 20)
    assert np.array_equal(fired.of(own), expected)
    fired.advance(15)
    assert set(np.unique(fired.of(own))) == {15, 20}
    fired.store()
    again = FiredTimes(Context(6, 10, middle.stored()))  # type: ignore[arg-type]
    assert np.array_equal(again.of(own), fired.of(own))


def test_a_subtask_without_key_groups_has_nothing_to_say() -> None:
    fired = FiredTimes(Context(0, -1))  # type: ignore[arg-type]
    fired.advance(7)
    fired.store()
    assert fired.lowest == NEVER
