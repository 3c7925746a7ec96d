"""Farewell: what a leader says in the log when it ends a job that has not finished.

It tells people, the commands they use, and drivers on standby whether the job was stopped, has
failed or was cancelled. No row depends on it, so a storage that does not answer is not waited for
long.
"""

from __future__ import annotations

from mainstay.runtime.coordinator.claims import Claims
from mainstay.runtime.ports import Clock
from mainstay.snapshot.history import Ended

PATIENCE_S = 3.0
SHARED_PATIENCE_S = 30.0
"""With drivers on standby: without it, one of them would run the job on."""


class Farewell:
    """Notes the end of a job, once no other claim is under way."""

    def __init__(self, claims: Claims, clock: Clock, patience_s: float = PATIENCE_S) -> None:
        self._claims = claims
        self._clock = clock
        self._patience_s = patience_s
        self._to_say: Ended | None = None
        self._until: float | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it is worth while to wait for it."""
        return self._until is not None

    def say(self, ended: Ended) -> None:
        self._to_say = ended
        self._until = self._clock.monotonic() + self._patience_s
        self._claim_if_free()

    def over(self) -> None:
        """It is said, or never will be."""
        self._to_say = self._until = None

    def tick(self, now: float) -> None:
        if self._until is not None and now >= self._until:
            self.over()
        self._claim_if_free()

    def deadline(self) -> float | None:
        return self._until

    def _claim_if_free(self) -> None:
        if self._to_say is not None and self._claims.is_settled:
            ended, self._to_say = self._to_say, None
            self._claims.claim(ended, self.over, lambda _: self.over())
