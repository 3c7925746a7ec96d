"""What the coordinator knows of one source: which splits it has given out, and to whom."""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.runtime.connector import Json, Split


class SplitBook:
    """The splits of one source in one attempt.

    Its notes are captured when an epoch is triggered: a split is in them exactly if the reader
    that got it has it in its state.
    """

    def __init__(self, parallelism: int, *, bounded: bool, notes: Json | None) -> None:
        self.bounded = bounded
        self.is_complete = bool(notes and notes["complete"])
        self._seen: list[str] = list(notes["seen"]) if notes else []
        self._given = [0] * parallelism

    @property
    def seen(self) -> frozenset[str]:
        return frozenset(self._seen)

    def notes(self) -> Json:
        """What the manifest keeps."""
        return {"seen": list(self._seen), "complete": self.is_complete}

    def nothing(self) -> list[tuple[Split, ...]]:
        """No split for anyone."""
        return [() for _ in self._given]

    def assign(self, planned: Sequence[Split]) -> list[tuple[Split, ...]]:
        """Give each new split to the subtask that was given the fewest so far."""
        known = set(self._seen)
        shares: list[list[Split]] = [[] for _ in self._given]
        for split in planned:
            if split.id in known:
                continue
            known.add(split.id)
            self._seen.append(split.id)
            subtask = self._given.index(min(self._given))
            self._given[subtask] += 1
            shares[subtask].append(split)
        self.is_complete = self.is_complete or self.bounded
        return [tuple(share) for share in shares]
