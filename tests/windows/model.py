"""Windows as the words of their definition say, and what may happen to a job that has them."""

from __future__ import annotations

import random
from typing import Any

from mainstay.runtime.windows import FixedWindows
from mainstay.testing import crash, idle, snapshot
from tests.windows.kit import click, s, until


def script(seed: int) -> list[Any]:
    """Rows out of order, watermarks that make some of them late, epochs, crashes, idleness."""
    random_ = random.Random(seed)
    elements: list[Any] = []
    now, told = 0.0, -100.0
    for _ in range(70):
        now += random_.uniform(0, 0.7)
        at = now - random_.choice([0, 0, 1, 2, 9])
        key = random_.choice(["a", "b", "c", None])
        elements.append(("clicks", click(key, round(at, 3), random_.randrange(5))))
        if random_.random() < 0.3:
            told = max(told, round(now - random_.uniform(0, 3), 3))
            elements += [("clicks", until(told)), ("more", until(told))]
        kind = random_.random()
        if kind < 0.05:
            elements.append(("more", idle()))
        elif kind < 0.15:
            elements.append(("clicks", snapshot()))
    for _ in range(3):
        elements.insert(random_.randrange(len(elements)), ("clicks", crash()))
    return elements


class Model:
    """Windows as the words of their definition say, a row and a watermark at a time."""

    def __init__(self, window: Any, lateness: float) -> None:
        self.windows: FixedWindows = window.fixed()
        self.lateness = round(lateness * 1_000_000)
        self.now = -(1 << 62)
        self.kept: dict[Any, list[int]] = {}
        self.out: list[Any] = []
        self.late: list[Any] = []

    def take(self, row: tuple[Any, ...]) -> None:
        user, at, amount = row
        time = round((at - s(0)).total_seconds() * 1_000_000)
        end = self.windows.slice_end(time)
        ends = range(
            self.windows.first_end(end), self.windows.last_end(end) + 1, self.windows.every_us
        )
        alive = [each for each in ends if each + self.lateness > self.now]
        for each in alive:
            self.kept.setdefault((user, each), []).append(amount)
        if ends and not alive:
            self.late.append(row)

    def until(self, now: int) -> None:
        self.now = max(self.now, now)
        for user, end in sorted(self.kept, key=repr):
            if end + self.lateness <= self.now:
                amounts = self.kept.pop((user, end))
                bounds = self.windows.start(end) / 1e6, end / 1e6
                self.out.append((user, *bounds, len(amounts), sum(amounts)))
