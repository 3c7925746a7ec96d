"""What an import has taken over, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ImportedState:
    """A state of the job, what it was in the checkpoint, and how many rows it has."""

    operator: str
    state: str
    variable: str
    rows: int

    def __str__(self) -> str:
        return f"state {self.operator}.{self.state}: {self.rows:,} rows of {self.variable}"


@dataclass(frozen=True, slots=True)
class ImportedCheckpoint:
    """The result of ``import_checkpoint``; printed, it is a line for each thing to know."""

    savepoint: str
    """The path to start the job from."""
    checkpoint: str
    query_id: str
    batch: int
    """The last batch that the query had committed."""
    watermark: datetime | None
    """How far event time had come."""
    states: tuple[ImportedState, ...]
    sources: dict[str, str]
    """Where each source of the job goes on."""
    notes: tuple[str, ...]
    """What was not taken over, or is different from now on."""

    def __str__(self) -> str:
        lines = [f"batch {self.batch} of {self.checkpoint} is in the savepoint {self.savepoint}"]
        lines += map(str, self.states)
        lines += [f"source {uid}: {where}" for uid, where in self.sources.items()]
        if self.watermark is not None:
            lines.append(f"event time: {self.watermark.isoformat()}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
