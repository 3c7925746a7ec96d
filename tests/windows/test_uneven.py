"""Key-groups that have not fired equally far, as after a restore from cuts of different times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.runtime.operators.fired import FiredTimes
from mainstay.state.hashing import key_groups
from mainstay.testing import run
from tests.windows.kit import click, shown, until, windowed

USERS = [f"user {n}" for n in range(8)]
HALF = 64


@contextmanager
def half_ahead(time_us: int) -> Iterator[None]:
    """The lower half of the key-groups had come as far before."""
    right = FiredTimes.__init__

    def restored(self: Any, context: Any) -> None:
        right(self, context)
        ahead = np.arange(self._groups.first, self._groups.last + 1) < HALF
        self._times[ahead] = np.maximum(self._times[ahead], time_us)
        self._note()

    with patch.object(FiredTimes, "__init__", restored):
        yield


def outcome() -> tuple[list[Any], list[Any]]:
    elements = [*(click(user, 5) for user in USERS), *(click(user, 9) for user in USERS), until(12)]
    with half_ahead(10_000_000):
        build = windowed(ms.sliding("4s", every="2s"))
        result = run(build, {"clicks": elements}, parallelism=1)
    return sorted(shown(result.output("out"))), sorted(shown(result.output("late")))


def expected() -> tuple[list[Any], list[Any]]:
    groups = key_groups([pa.array(USERS)], 128)
    ahead = {user for user, group in zip(USERS, groups.tolist(), strict=True) if group < HALF}
    assert set() < ahead < set(USERS)
    out = []
    for user in USERS:
        starts = [8] if user in ahead else [2, 4, 6, 8]
        out += [(user, start, start + 4, 1, 1) for start in starts]
    return sorted(out), sorted((user, 5, 1) for user in ahead)


def test_what_has_fired_for_some_key_groups_fires_for_the_others_alone() -> None:
    assert outcome() == expected()


@pytest.mark.mutation
def test_firing_by_subtask_and_not_by_key_group_is_caught() -> None:
    for times in ("lowest", "highest"):
        with patch.object(FiredTimes, "of", lambda self, keys, of=times: getattr(self, of)):
            assert outcome() != expected(), f"the {times} for all is not noticed"
