"""``import_checkpoint``: the checkpoint of a Spark query as a savepoint of a job.

The checkpoint is read, fitted to the program of the job, and written, in this order: all that can
be checked is checked before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from mainstay.errors import GraphError, RestoreError
from mainstay.snapshot.object_storage import open_existing
from mainstay.snapshot.savepoint import read_savepoint
from mainstay.snapshot.storage import shared
from mainstay.spark.checkpoints.fitting import Fitted, ReadCheckpoint, fitted
from mainstay.spark.checkpoints.frames import StateFrame
from mainstay.spark.checkpoints.hadoop_files import HadoopFiles
from mainstay.spark.checkpoints.logs import CheckpointLogs, CommittedBatch
from mainstay.spark.checkpoints.report import ImportedCheckpoint, ImportedState
from mainstay.spark.checkpoints.stored import StoredState, session_set_to
from mainstay.spark.states.savepoint_writer import SavepointWriter, given_state
from mainstay.spark.states.source import parallelism_of
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
    read = _read(session, _absolute(os.fspath(checkpoint)))
    taken = fitted(read, program, operators, sources, allow_dropped)
    tasks = partitions or parallelism_of(session)
    target = _written(read, taken, shared(os.fspath(path)), tasks)
    return _told(read, taken, target)


# ---------------------------------------------------------------- reading


def _read(session: SparkSession, place: str) -> ReadCheckpoint:
    """The last batch that a stopped query has committed, with its state."""
    files = HadoopFiles(session, place)
    logs = CheckpointLogs(files)
    batch = logs.committed()
    _check_is_stopped(session, batch, files.location)
    reading = session_set_to(session, batch.settings)
    stored = StoredState(reading, files.location, batch.number)
    return ReadCheckpoint(files.location, logs, batch, reading, stored)


def _absolute(place: str) -> str:
    return place if "://" in place or place.startswith("file:") else os.path.abspath(place)


def _check_is_stopped(spark: SparkSession, batch: CommittedBatch, place: str) -> None:
    for query in spark.streams.active:
        if query.id == batch.query_id:
            raise RestoreError(
                f"a query of this session runs on the checkpoint {place!r}. Stop it first, with "
                "query.stop(): what it does after the import would be done twice."
            )


# ---------------------------------------------------------------- writing


def _written(read: ReadCheckpoint, taken: Fitted, target: str, tasks: int) -> str:
    """Write the savepoint, unless the query has gone on meanwhile; says where it is."""
    keyed = [
        given_state(taken.declared, (each.operator, each.state), each.frame)
        for each in taken.frames
    ]
    writer = SavepointWriter(read.session, target, taken.max_parallelism, tasks)
    return writer.write(
        taken.declared,
        keyed,
        taken.units,
        sources={uid: position.notes for uid, position in taken.positions.items()},
        check=lambda: read.logs.check_stood_still(read.batch),
    )


# ---------------------------------------------------------------- what is told


def _told(read: ReadCheckpoint, taken: Fitted, target: str) -> ImportedCheckpoint:
    watermark_ms = read.batch.watermark_ms
    return ImportedCheckpoint(
        savepoint=target,
        checkpoint=read.location,
        query_id=read.batch.query_id,
        batch=read.batch.number,
        watermark=moment(watermark_ms * 1000) if watermark_ms else None,
        states=_states(target, taken.frames),
        sources={uid: position.where for uid, position in taken.positions.items()},
        notes=tuple(taken.notes),
    )


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
