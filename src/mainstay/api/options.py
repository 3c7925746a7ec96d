"""Settings as a job's author writes them, and the durations in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mainstay.errors import GraphError
from mainstay.runtime.options import RestartOptions, SnapshotOptions

_UNITS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}


def seconds(text: str | float, name: str) -> float:
    """Seconds of "500ms", "1s", "10 min", "7 days", or a number of seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = float(text)
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", str(text))
        unit = found.group(2).lower() if found else ""
        factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
        if found is None or factor is None:
            raise GraphError(
                f'{name}={text!r} is no duration. Write a number and a unit, as in "500ms", '
                '"10s", "5 min" or "7 days".'
            )
        value = float(found.group(1)) * factor
    if value < 0:
        raise GraphError(f"{name}={text!r} is negative.")
    return value


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Where snapshots go, how often they are taken, and how many are kept."""

    dir: str
    every: str | float = "10s"
    retain: int = 3
    timeout: str | float = "10min"
    min_pause: str | float = "0s"
    tolerable_failures: int = 3

    def parsed(self) -> SnapshotOptions:
        if self.retain < 1:
            raise GraphError(f"retain={self.retain}: at least one epoch must be kept.")
        every_s = seconds(self.every, "every")
        if every_s <= 0:
            raise GraphError(f"every={self.every!r} must be more than zero.")
        return SnapshotOptions(
            every_s=every_s,
            retain=self.retain,
            timeout_s=seconds(self.timeout, "timeout"),
            min_pause_s=seconds(self.min_pause, "min_pause"),
            tolerable_failures=self.tolerable_failures,
        )


@dataclass(frozen=True, slots=True)
class Restart:
    """How a failed job is started again: how often within a window, and after what wait."""

    max_failures: int = 10
    window: str | float = "10min"
    backoff: str | float = "1s"
    max_backoff: str | float = "1min"

    def parsed(self) -> RestartOptions:
        return RestartOptions(
            max_failures=self.max_failures,
            window_s=seconds(self.window, "window"),
            backoff_s=seconds(self.backoff, "backoff"),
            max_backoff_s=seconds(self.max_backoff, "max_backoff"),
        )
