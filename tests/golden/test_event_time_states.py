"""States of event time, as they were first stored, are restored and go on to the right result."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shutil import unpack_archive
from typing import Any

import pytest

from mainstay.runtime.status import Status
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.snapshot.object_storage import open_storage
from mainstay.snapshot.storage import Storage
from mainstay.testing.inspect import committed_state
from mainstay.testing.settings import SimulationSettings
from tests.golden.event_time import CLICKS, EPOCHS, NAMES, results, simulate

STORED = Path(__file__).parent / "data" / "event-time-snapshot-v1.zip"
HELD = {
    "timed": ("close", "event_timers"),
    "tumbling": ("panes",),
    "sliding": ("panes",),
    "session": ("sessions",),
    "best": ("panes",),
    "gathered": ("panes",),
    "interval": ("left", "right", "left_matched", "right_matched"),
    "until": ("left", "right", "left_matched"),
    "window": ("left", "right"),
    "as_of": ("left", "right"),
    "regular": ("left", "right"),
    "first": ("seen",),
    "last": ("newest", "seen_us"),
    "top": ("top", "worst"),
    "asked": ("in_flight_calls",),
}
"""The states that are stored, all of which hold something."""


def unpacked(directory: Path) -> Storage:
    unpack_archive(STORED, directory)
    return open_storage(str(directory))


@cache
def unbroken() -> dict[str, Any]:
    """What the job comes to when nothing is restored."""
    storage = MemoryStorage()
    job, simulation = simulate(storage, 2, SimulationSettings())
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    return results(storage, job)


@pytest.fixture(scope="module")
def gone_on(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the stored job comes to at another parallelism."""
    storage = unpacked(tmp_path_factory.mktemp("restored"))
    job, simulation = simulate(storage, 2, SimulationSettings(), restore="latest")
    assert simulation.coordinator.status is Status.FINISHED, simulation.coordinator.error
    assert simulation.attempts[0].restored_from == EPOCHS
    return results(storage, job)


@pytest.mark.parametrize("name", [*NAMES, "top"])
def test_every_part_of_the_job_goes_on_to_the_right_result(
    name: str, gone_on: dict[str, Any]
) -> None:
    assert gone_on[name] == unbroken()[name]
    assert gone_on[name]


def test_the_result_is_that_of_a_plain_loop() -> None:
    totals: dict[str, int] = {}
    for user, n, *_ in CLICKS:
        totals[user] = totals.get(user, 0) + n
    found = unbroken()
    for name in ("tumbling", "session", "gathered", "asked"):
        assert {key: row.total for key, row in found[name].items()} == totals


def test_every_state_was_stored_with_something_in_it(tmp_path: Path) -> None:
    storage = unpacked(tmp_path)
    job, _ = simulate(MemoryStorage(), 1, SimulationSettings(stop_after_epochs=1))
    for uid, states in HELD.items():
        for state in states:
            held = committed_state(storage, job, uid, state)
            assert any(held) if isinstance(held, list) else held, f"{uid}.{state} holds nothing"
