"""Epochs that somebody has asked for: they are triggered at once, and told when complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mainstay.errors import JobOverError

Told = Callable[[int | None, Exception | None], None]
"""Takes the number of a complete epoch, or the reason why there is none."""


@dataclass(slots=True)
class WantedEpochs:
    """Who waits for an epoch. A request outlives attempts: any later epoch will do."""

    _waiting: list[tuple[int, Told]] = field(default_factory=list)

    def request(self, first_epoch: int, told: Told) -> None:
        """Ask for an epoch of this number or a later one: one that is yet to be triggered."""
        self._waiting.append((first_epoch, told))

    @property
    def lowest(self) -> int | None:
        """The lowest number that somebody waits for."""
        if not self._waiting:
            return None
        return min(epoch for epoch, _ in self._waiting)

    def committed(self, epoch: int) -> None:
        """An epoch is in the log."""
        met = [told for first, told in self._waiting if first <= epoch]
        self._waiting = [each for each in self._waiting if each[0] > epoch]
        for told in met:
            told(epoch, None)

    def end(self, how: str) -> None:
        """The job has ended: nobody need wait any longer."""
        waiting, self._waiting = self._waiting, []
        for _, told in waiting:
            told(None, JobOverError(f"no epoch was taken: {how}"))
