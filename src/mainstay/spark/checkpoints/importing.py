"""``import_checkpoint``: the checkpoint of a Spark query as a savepoint of a job.

All that can be checked is checked before anything is written. The state is that of the last batch
that the query has committed, and the sources go on behind that batch.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mainstay.errors import GraphError, RestoreError
from mainstay.inspect.declared import Declared, declared_by_program
from mainstay.runtime.own_states import FIRED, SPLITS, TOLD
from mainstay.snapshot.object_storage import open_existing
from mainstay.snapshot.savepoint import read_savepoint
from mainstay.snapshot.storage import shared
from mainstay.spark.checkpoints.frames import CheckpointFrames, StateFrame
from mainstay.spark.checkpoints.hadoop_files import HadoopFiles
from mainstay.spark.checkpoints.logs import CheckpointLogs, CommittedBatch
from mainstay.spark.checkpoints.matching import Match, beginning_empty, matches_of
from mainstay.spark.checkpoints.positions import Position, positions_of
from mainstay.spark.checkpoints.report import ImportedCheckpoint, ImportedState
from mainstay.spark.checkpoints.stored import StoredState, session_set_to
from mainstay.spark.states.savepoint_writer import SavepointWriter, Units, given_state
from mainstay.spark.states.source import parallelism_of
from mainstay.state.info import StateInfo
from mainstay.state.timer_handles import moment

if TYPE_CHECKING:
    from mainstay.api.environment import Environment


def import_checkpoint(
    checkpoint: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    program: Environment,
    operators: Mapping[str, int] | None = None,
    sources: Mapping[str, int | None] | None = None,
    allow_dropped: Collection[str] = (),
    partitions: int | None = None,
    spark: SparkSession | None = None,
) -> ImportedCheckpoint:
    """Write the checkpoint of a stopped Spark query as a savepoint; returns what was taken over.

    ``program`` is the Environment of the job that will start from the savepoint at ``path``. Its
    ``transform_with_state`` or ``apply_in_pandas_with_state`` takes the state of the query's, its
    source goes on where the query's was. Where there are several, ``operators`` says which takes
    the state of which operator of the query, as ``{"counts": 0}``, and ``sources`` from which
    source of the query each goes on, or None for its beginning.

    ``allow_dropped`` names what may be left behind: a state as ``"0.seen"``, with the number of the
    query's operator, or an operator as ``"1"``. ``partitions`` is into how many parts the keys are
    divided, each of which a Spark task writes.
    """
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise GraphError("import_checkpoint() needs spark=<a session>.")
    if not hasattr(program, "graph"):
        raise GraphError(
            f"import_checkpoint(program={program!r}): give the Environment of the job that is to "
            "go on, with its operators."
        )
    files = HadoopFiles(session, _absolute(os.fspath(checkpoint)))
    logs = CheckpointLogs(files)
    batch = logs.committed()
    _check_is_stopped(session, batch, files.location)
    graph, declared = program.graph(), declared_by_program(program.plan())
    reading = session_set_to(session, batch.settings)
    stored = StoredState(reading, files.location, batch.number)
    matches = matches_of(graph, stored.operators(), operators, allow_dropped)
    positions = positions_of(graph, batch, logs, sources)
    notes = _notes(batch, positions)
    notes += [f"operator {uid} starts empty" for uid in beginning_empty(graph, matches)]
    frames = [
        frame
        for match in matches
        for frame in CheckpointFrames(stored, match, declared, notes).of_operator(allow_dropped)
    ]
    most = program.max_parallelism
    units = {
        **_source_units(declared, positions, batch),
        **_fired_units(declared, matches, batch, most),
    }
    keyed = [given_state(declared, (each.operator, each.state), each.frame) for each in frames]
    tasks = partitions or parallelism_of(session)
    writer = SavepointWriter(reading, shared(os.fspath(path)), most, tasks)
    target = writer.write(
        declared,
        keyed,
        units,
        sources={uid: position.notes for uid, position in positions.items()},
        check=lambda: logs.check_stood_still(batch),
    )
    return ImportedCheckpoint(
        savepoint=target,
        checkpoint=files.location,
        query_id=batch.query_id,
        batch=batch.number,
        watermark=moment(batch.watermark_ms * 1000) if batch.watermark_ms else None,
        states=_states(target, frames),
        sources={uid: position.where for uid, position in positions.items()},
        notes=tuple(notes),
    )


def _absolute(place: str) -> str:
    return place if "://" in place or place.startswith("file:") else os.path.abspath(place)


# ---------------------------------------------------------------- checks


def _check_is_stopped(spark: SparkSession, batch: CommittedBatch, place: str) -> None:
    for query in spark.streams.active:
        if query.id == batch.query_id:
            raise RestoreError(
                f"a query of this session runs on the checkpoint {place!r}. Stop it first, with "
                "query.stop(): what it does after the import would be done twice."
            )


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


# ---------------------------------------------------------------- what is told


def _states(target: str, frames: Collection[StateFrame]) -> tuple[ImportedState, ...]:
    written = read_savepoint(open_existing(target), target)
    rows = {
        (uid, state.schema.name): sum(file.rows for file in state.files)
        for uid, operator in written.operators.items()
        for state in operator.states
    }
    return tuple(
        ImportedState(each.operator, each.state, each.variable, rows[each.operator, each.state])
        for each in frames
    )
