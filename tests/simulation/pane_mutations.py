"""Bugs to plant in what segments say of panes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mainstay.state.backends.current import CurrentBackend
from tests.simulation.planting import planting

MUTATIONS, mutation = planting()


@mutation
def what_a_segment_drops_is_forgotten_at_a_restore() -> Iterator[None]:
    right = CurrentBackend.apply

    def forgetful(self: Any, rows: Any) -> Iterator[None]:
        yield from right(self, replace(rows, drops=()))

    with patch.object(CurrentBackend, "apply", forgetful):
        yield


@mutation
def what_a_segment_drops_is_lost_when_it_is_merged() -> Iterator[None]:
    """Into a base, that is: what it dropped of the others is in it."""
    with patch("mainstay.state.merge.surviving", lambda parts: parts):
        yield
