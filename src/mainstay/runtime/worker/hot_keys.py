"""Hot keys: which keys have most of the rows of a subtask, by a sample of its slices.

A few rows are looked at every few milliseconds of work, so that the cost is a small part of it
whatever a row takes. They stand for all rows since the last look. Where in a slice they
stand changes from look to look by a fixed rule: input whose keys repeat in step with the slices
is sampled fairly, and a simulated run stays a function of its seed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mainstay.runtime.spec import HashByKey, TaskSpec

EVERY_S = 0.005
"""How long a subtask is at work between two looks."""
EACH = 4
"""How many rows are looked at then."""
KEPT = 2048
LEAST = 64
"""Fewer samples say nothing."""
LEAST_SHARE = 0.02
LEAST_SEEN = 6
"""A key that was seen less often was seen by chance."""
MOST_SHOWN = 5
MOST_LETTERS = 100


class HotKeys:
    """The last sampled keys of one subtask. ``columns`` says by port where the key stands."""

    def __init__(self, columns: Mapping[int, tuple[int, ...]], seed: int = 0) -> None:
        self._columns = columns
        self._place = seed + 1
        self._rows = 0
        self._due_s = 0.0
        self._samples: deque[tuple[str, float]] = deque(maxlen=KEPT)

    @staticmethod
    def of(task: TaskSpec, subtask: int) -> HotKeys | None:
        """For a task that is given the rows of its keys; None for others."""
        columns = {
            edge.port: edge.partitioning.key.columns
            for edge in task.inputs
            if isinstance(edge.partitioning, HashByKey)
        }
        return HotKeys(columns, subtask) if columns else None

    def look(self, batch: pa.RecordBatch, port: int, busy_s: float) -> None:
        """A slice is to be processed, after so much work: sample it if that is due."""
        columns, rows = self._columns.get(port), batch.num_rows
        if columns is None or not rows:
            return
        self._rows += rows
        if busy_s < self._due_s:
            return
        self._due_s = busy_s + EVERY_S
        looked_at = [batch.column(number) for number in columns]
        each, since = min(EACH, rows), self._rows
        self._rows = 0
        for _ in range(each):
            self._place = (self._place * 1103515245 + 12345) & 0x7FFFFFFF
            row = (self._place >> 8) % rows
            self._samples.append((_text([column[row] for column in looked_at]), since / each))

    def shares(self) -> tuple[tuple[str, float], ...]:
        """The keys with most rows, and which part of the rows lately each has."""
        if len(self._samples) < LEAST:
            return ()
        seen = Counter(key for key, _ in self._samples)
        often = {key: 0.0 for key, times in seen.items() if times >= LEAST_SEEN}
        total = 0.0
        for key, weight in self._samples:
            total += weight
            if key in often:
                often[key] += weight
        found = sorted(((weight / total, key) for key, weight in often.items()), reverse=True)
        return tuple((key, share) for share, key in found[:MOST_SHOWN] if share >= LEAST_SHARE)


def _text(parts: list[pa.Scalar]) -> str:
    """A key as people read it. It is cut, so that large keys do not pile up."""
    texts = [_shown(part.as_py()) for part in parts]
    text = texts[0] if len(texts) == 1 else ", ".join(texts)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:MOST_LETTERS].hex()
    return "null" if value is None else str(value)
