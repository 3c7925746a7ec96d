"""What the tests of starting a job share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lead = Callable[..., Any]


def with_history(lead: Lead, epochs: int = 2) -> None:
    """A first leader completes some epochs and is gone."""
    leader = lead("old").run()
    for _ in range(epochs):
        leader.complete()
    leader.world.forget()
