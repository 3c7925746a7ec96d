"""A checkpoint fitted to the program of a job: which state goes where, and how sources go on.

The state is that of the last batch that the query has committed, and the sources go on behind that
batch. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mainstay.inspect.declared import Declared, declared_by_program
from mainstay.runtime.own_states import FIRED, SPLITS, TOLD
from mainstay.spark.checkpoints.frames import CheckpointFrames, StateFrame
from mainstay.spark.checkpoints.logs import CheckpointLogs, CommittedBatch
from mainstay.spark.checkpoints.matching import Match, beginning_empty, matches_of
from mainstay.spark.checkpoints.positions import Position, positions_of
from mainstay.spark.checkpoints.stored import StoredState
from mainstay.spark.states.savepoint_writer import Units
from mainstay.state.info import StateInfo

if TYPE_CHECKING:
    from mainstay.api.environment import Environment


@dataclass(frozen=True, slots=True)
class ReadCheckpoint:
    """A checkpoint and its last committed batch; ``session`` has the settings of its query."""

    location: str
    logs: CheckpointLogs
    batch: CommittedBatch
    session: SparkSession
    stored: StoredState


@dataclass(frozen=True, slots=True)
class Fitted:
    """All that a savepoint of the program needs of a checkpoint."""

    declared: Declared
    max_parallelism: int
    frames: list[StateFrame]
    """Keyed state, in the job's terms."""
    units: Units
    """Operator state, by subtask."""
    positions: dict[str, Position]
    notes: list[str]
    """What is to be told."""


def fitted(
    read: ReadCheckpoint,
    program: Environment,
    operators: Mapping[str, int] | None,
    sources: Mapping[str, int | None] | None,
    allow_dropped: Collection[str],
) -> Fitted:
    """Fit a checkpoint to a program; a ``RestoreError`` where it does not fit."""
    graph, declared = program.graph(), declared_by_program(program.plan())
    matches = matches_of(graph, read.stored.operators(), operators, allow_dropped)
    positions = positions_of(graph, read.batch, read.logs, sources)
    notes = _notes(read.batch, positions)
    notes += [f"operator {uid} starts empty" for uid in beginning_empty(graph, matches)]
    frames = [
        frame
        for match in matches
        for frame in CheckpointFrames(read.stored, match, declared, notes).of_operator(
            allow_dropped
        )
    ]
    most = program.max_parallelism
    units = {
        **_source_units(declared, positions, read.batch),
        **_fired_units(declared, matches, read.batch, most),
    }
    return Fitted(declared, most, frames, units, positions, notes)


def _notes(batch: CommittedBatch, positions: Mapping[str, Position]) -> list[str]:
    notes = []
    if batch.begun is not None:
        notes.append(
            f"batch {batch.begun} was begun and not committed: the job reads its rows anew, and "
            "what the query's sink has of it may come again"
        )
    if len(batch.offsets) > len(positions):
        notes.append(
            f"the query had {len(batch.offsets)} sources, of which the job reads {len(positions)}"
        )
    return notes


# ---------------------------------------------------------------- operator state


def _source_units(
    declared: Declared, positions: Mapping[str, Position], batch: CommittedBatch
) -> Units:
    """The splits of sources, and the last watermark of those that tell event time."""
    units: dict[tuple[str, str], list[pa.Array]] = {}
    for uid, position in positions.items():
        units[uid, SPLITS.name] = _on_first(declared, uid, SPLITS, list(position.splits))
        tells = TOLD.name in declared[uid].states
        # One that begins anew has rows that are older than the query's watermark.
        if tells and position.goes_on and batch.watermark_ms:
            told = [(batch.watermark_ms * 1000, False)]
            units[uid, TOLD.name] = _on_first(declared, uid, TOLD, told)
    return units


def _fired_units(
    declared: Declared, matches: Collection[Match], batch: CommittedBatch, most: int
) -> Units:
    """How far the operators have fired. Timers between this and the watermark of the next batch
    are fired by the job, when its sources tell that watermark."""
    if not batch.fired_ms:
        return {}
    found: dict[tuple[str, str], list[pa.Array]] = {}
    for match in matches:
        operator = declared[match.uid]
        if FIRED.name in operator.states:
            fired = [(0, operator.key_groups(most) - 1, batch.fired_ms * 1000)]
            found[match.uid, FIRED.name] = _on_first(declared, match.uid, FIRED, fired)
    return found


def _on_first(declared: Declared, uid: str, info: StateInfo, units: list[Any]) -> list[pa.Array]:
    """Units by subtask, all of them on the first."""
    others = (declared[uid].parallelism or 1) - 1
    value = info.value
    kept = [value.freeze(each) for each in units]
    return [value.to_array(kept), *(value.to_array([]) for _ in range(others))]
