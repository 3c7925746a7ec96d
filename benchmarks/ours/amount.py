"""How much is measured: for how long, and with states of what sizes."""

from __future__ import annotations

from dataclasses import dataclass

SIZES = (10_000, 100_000, 1_000_000)
LARGE = (5_000_000, 10_000_000)


@dataclass(frozen=True, slots=True)
class Amount:
    """``keys`` replaces the sizes; ``is_large`` adds those that need minutes and gigabytes."""

    seconds: float
    is_large: bool = False
    keys: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.keys or (SIZES + LARGE if self.is_large else SIZES)
