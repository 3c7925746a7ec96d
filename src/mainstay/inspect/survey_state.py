"""What an epoch holds: rows and bytes of each state, and how they are spread.

Counted from the footers of state files, which have an index by key-group. Rows are stored rows: in
a chain a key that was changed in two segments counts twice, and a deletion is a row. What lies in
the checkpoint of a database is known by its bytes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mainstay.errors import MainstayError
from mainstay.inspect.survey import Flaw
from mainstay.snapshot.manifest import (
    PARQUET,
    FileRef,
    Manifest,
    OperatorState,
    SegmentRef,
    StateSchema,
)
from mainstay.snapshot.statefile import StateFile, open_state_file
from mainstay.snapshot.statefooter import StateIndex
from mainstay.snapshot.storage import Storage

Counts = npt.NDArray[np.int64]
HEAVIEST = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """How rows are spread over places; ``rows[i]`` are those of place i."""

    rows: tuple[int, ...]

    @property
    def mean(self) -> float:
        return sum(self.rows) / len(self.rows) if self.rows else 0.0

    @property
    def skew(self) -> float | None:
        """The largest place over the mean: 1 is even. None where there are no rows."""
        return max(self.rows) / self.mean if any(self.rows) else None

    def heaviest(self, count: int = HEAVIEST) -> tuple[tuple[int, int], ...]:
        """The places with most rows and how many those are, largest first."""
        order = sorted(range(len(self.rows)), key=lambda place: (-self.rows[place], place))
        return tuple((place, self.rows[place]) for place in order[:count] if self.rows[place])


@dataclass(frozen=True, slots=True)
class StateSurvey:
    """One state. ``by_group`` is None for operator state, ``by_subtask`` for a savepoint."""

    schema: StateSchema
    rows: int
    size_bytes: int
    by_group: Spread | None
    by_subtask: Spread | None


@dataclass(frozen=True, slots=True)
class OperatorSurvey:
    """One operator. ``chains`` are the lengths of its subtasks' chains, none in a savepoint."""

    uid: str
    parallelism: int
    key_type: str | None
    chains: tuple[int, ...]
    files: int
    size_bytes: int
    checkpoint_bytes: int
    states: tuple[StateSurvey, ...]
    flaws: tuple[Flaw, ...] = ()


@dataclass(slots=True)
class _Tally:
    """Rows and bytes of one state while they are counted."""

    groups: Counts
    subtasks: Counts
    size_bytes: int = 0


@dataclass(slots=True)
class _Count:
    """What has been counted of one operator."""

    storage: Storage
    new_tally: Callable[[], _Tally]
    tallies: dict[str, _Tally] = field(default_factory=dict)
    flaws: dict[str, Flaw] = field(default_factory=dict)
    _open: dict[str, StateFile] = field(default_factory=dict)

    def tally(self, state: str) -> _Tally:
        return self.tallies.setdefault(state, self.new_tally())

    def add_segment(self, subtask: int, segment: SegmentRef) -> None:
        """Count a segment that is a state file; one that cannot be read is noted."""
        name = segment.file.name
        try:
            # After a rescale several chains hold parts of one file.
            file = self._open.get(name) or open_state_file(self.storage, segment.file)
        except MainstayError as error:
            self.flaws[name] = Flaw(name, str(error))
            return
        self._open[name] = file
        for index in file.indexes:
            self._add(subtask, index, segment)

    def _add(self, subtask: int, index: StateIndex, segment: SegmentRef) -> None:
        tally = self.tally(index.name)
        counts = index.counts
        inside = (index.groups >= segment.first_group) & (index.groups <= segment.last_group)
        np.add.at(tally.groups, index.groups[inside], counts[inside])
        rows = int(counts[inside].sum())
        tally.subtasks[subtask] += rows
        stored = sum(chunk.length for chunk in index.chunks)
        tally.size_bytes += stored * rows // index.rows if index.rows else 0


def survey_epoch(storage: Storage, manifest: Manifest) -> tuple[OperatorSurvey, ...]:
    """What each operator holds, by the footers of its files."""
    return tuple(
        _survey_operator(storage, operator, manifest.key_groups(operator.uid))
        for operator in manifest.operators.values()
    )


def _survey_operator(storage: Storage, stored: OperatorState, groups: int) -> OperatorSurvey:
    tasks = max((task.subtask + 1 for task in stored.subtasks), default=stored.parallelism)
    count = _Count(storage, lambda: _Tally(np.zeros(groups, np.int64), np.zeros(tasks, np.int64)))
    files: dict[str, FileRef] = {}
    checkpoints: dict[str, FileRef] = {}
    for subtask, segment in _segments(stored):
        files.update({file.name: file for file in segment.files()})
        if segment.is_backends_own:
            checkpoints.update({file.name: file for file in segment.files()})
        elif segment.format != PARQUET:
            count.add_segment(subtask, segment)
    states = (_of_operator(stored, s, tasks) or _of_keyed(s, count) for s in stored.states)
    units = sum(unit.size_bytes for task in stored.subtasks for unit in task.units.values())
    return OperatorSurvey(
        stored.uid,
        stored.parallelism,
        stored.key_type,
        tuple(len(task.chain) for task in stored.subtasks),
        len(files),
        _size_of(files) + units,
        _size_of(checkpoints),
        tuple(states),
        tuple(count.flaws.values()),
    )


def _segments(stored: OperatorState) -> Iterator[tuple[int, SegmentRef]]:
    for task in stored.subtasks:
        for segment in task.chain:
            yield task.subtask, segment


def _of_operator(stored: OperatorState, schema: StateSchema, tasks: int) -> StateSurvey | None:
    """Operator state, which lies in the manifest itself; None for keyed state."""
    if schema.redistribute is None:
        return None
    counts, size_bytes = [0] * tasks, 0
    for task in stored.subtasks:
        unit = task.units.get(schema.name)
        if unit is not None:
            counts[task.subtask] = unit.count
            size_bytes += unit.size_bytes
    return StateSurvey(schema, sum(counts), size_bytes, None, Spread(tuple(counts)))


def _of_keyed(schema: StateSchema, count: _Count) -> StateSurvey:
    tally = count.tally(schema.name)
    by_group, by_subtask = spread_of(tally.groups), spread_of(tally.subtasks)
    return StateSurvey(schema, sum(by_group.rows), tally.size_bytes, by_group, by_subtask)


def spread_of(counts: Counts) -> Spread:
    return Spread(tuple(counts.tolist()))


def _size_of(files: dict[str, FileRef]) -> int:
    return sum(file.size_bytes for file in files.values())
