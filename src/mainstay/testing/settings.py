"""What a simulated run is to go through."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """What a run is to go through.

    Savepoints and rescales, to each of the parallelisms that are given, are asked for at steps that
    the seed decides, among those in which crashes happen. A stop is asked for from its step on.
    ``terms`` is how often another process is elected; the leader before hears of it at once, or
    late. ``room`` is for how many workers there is room: it becomes each of these in turn, at steps
    that the seed decides; where there are none, it is always enough.
    """

    seed: int = 0
    crashes: int = 0
    storage_faults: int = 0
    crash_within_steps: int = 1200
    stall_odds: float = 0.0
    stall_steps: int = 1000
    max_steps: int = 200_000
    stop_after_epochs: int | None = None
    check_invariants: bool = False
    savepoints: int = 0
    rescales: tuple[int, ...] = ()
    stop_at_step: int | None = None
    stop_with_savepoint: bool = False
    drain: bool = False
    terms: int = 0
    room: tuple[int, ...] = ()
