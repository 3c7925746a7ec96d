"""Statistics of epochs in a job's storage: what ``job.snapshots()`` no longer keeps in memory.

They are stored a chunk at a time, of which the newest are kept. Nothing depends on them: a leader
that dies takes those of its last unfinished chunk with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mainstay.errors import DamagedFileError
from mainstay.snapshot.layout import STATISTICS_PREFIX, by_number, statistics_path
from mainstay.snapshot.sealed import sealed, unsealed
from mainstay.snapshot.storage import Storage

STATISTICS_FORMAT = 1
KEPT_CHUNKS = 100


@dataclass(frozen=True, slots=True)
class EpochStatistics:
    """One epoch in figures; times of subtasks are those of the slowest."""

    epoch: int
    attempt: int
    status: str
    triggered_at: float
    duration_s: float
    size_bytes: int
    alignment_s: float
    sync_s: float
    async_s: float
    reason: str = ""
    is_unaligned: bool = False


def write_statistics(storage: Storage, chunk: Sequence[EpochStatistics]) -> None:
    """Store a chunk, and delete the oldest where there are too many."""
    last = chunk[-1]
    document = {"format": STATISTICS_FORMAT, "epochs": [asdict(each) for each in chunk]}
    data = json.dumps(sealed(document), sort_keys=True).encode()
    storage.write(statistics_path(last.epoch, last.attempt), data)
    storage.delete(*by_number(storage.list(STATISTICS_PREFIX))[:-KEPT_CHUNKS])


def read_statistics(storage: Storage, most: int | None = None) -> list[EpochStatistics]:
    """The stored statistics, oldest first; of the newest epochs alone with ``most``."""
    found: list[EpochStatistics] = []
    for path in reversed(by_number(storage.list(STATISTICS_PREFIX))):
        found = _read_chunk(storage, path) + found
        if most is not None and len(found) >= most:
            return found[len(found) - most :]
    return found


def _read_chunk(storage: Storage, path: str) -> list[EpochStatistics]:
    try:
        document = unsealed(json.loads(storage.read(path)), is_required=True)
        if document["format"] != STATISTICS_FORMAT:
            raise ValueError(f"its format is {document['format']}")
        return [EpochStatistics(**each) for each in document["epochs"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFileError(
            f"{path} does not hold statistics of epochs ({error}). Nothing depends on them: "
            "delete the file."
        ) from error
