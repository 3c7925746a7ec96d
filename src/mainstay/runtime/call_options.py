"""How a function is called that waits for something outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CallOptions:
    """``capacity`` rows at a time, each for ``timeout_s`` at most, all its ``retries`` together.

    ``on_timeout`` gives the row to go on with where there was no answer in time; without it that
    is an error.
    """

    capacity: int
    timeout_s: float | None
    is_ordered: bool
    retries: int
    on_timeout: Callable[[Any], Any] | None
    is_async: bool
