"""Writes one savepoint: DataFrames by Spark jobs, operator state by the driver.

``savepoint.json`` comes last, when all files are there; if anything fails, what was written is
deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from mainstay.errors import GraphError, SavepointError, SchemaError, StateTypeError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.declared import Declared, StateName, columns_of
from mainstay.inspect.fitting import fitting_columns
from mainstay.inspect.reading import Origin, may_hold
from mainstay.runtime.coordinator.savepoint_writing import KeyedPiece, pieces_of
from mainstay.schema import to_schema
from mainstay.snapshot.manifest import Manifest, OperatorState
from mainstay.snapshot.object_storage import open_existing, open_storage
from mainstay.snapshot.savepoint import (
    Savepoint,
    SavepointFile,
    SavepointOperator,
    SavepointState,
    discard,
    operator_path,
    publish,
    reserve,
)
from mainstay.snapshot.savepoint_files import write_units
from mainstay.snapshot.storage import Storage
from mainstay.spark.launch.spark_errors import SPARK_ERRORS, summary
from mainstay.spark.states.source import prepare, quoted
from mainstay.spark.states.writing import (
    GROUP,
    RESULT,
    TASK,
    AddGroups,
    CopyPieces,
    WriteGroups,
    file_of,
)
from mainstay.state.keygroups import HASH_ID

BOOTSTRAP = "bootstrap"
"""The name of the job in a savepoint that no job has taken."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenState:
    """A DataFrame that becomes a state: just the columns that it is made of."""

    columns: StateColumns
    frame: DataFrame

    @property
    def name(self) -> StateName:
        return self.columns.operator, self.columns.schema.name


Units = Mapping[StateName, list[pa.Array]]
"""The units of operator states, by subtask."""
Files = dict[StateName, list[SavepointFile]]


def given_state(declared: Declared, name: StateName, frame: Any) -> GivenState:
    """A DataFrame as a state that is declared; an error where its columns do not fit."""
    columns = columns_of(declared, name)
    if not hasattr(frame, "mapInArrow") or not hasattr(frame, "schema"):
        raise GraphError(f"{columns.label} needs a DataFrame of Spark, not {type(frame).__name__}.")
    if frame.isStreaming:
        raise GraphError(f"{columns.label} needs a batch DataFrame; this one is streaming.")
    try:
        schema = to_schema(frame.schema)
    except SchemaError as error:
        raise StateTypeError(f"{columns.label}: {error}. Cast or drop the column first.") from error
    taken = fitting_columns(columns, schema)
    return GivenState(columns, frame.select(*map(quoted, taken)))


@dataclass(frozen=True, slots=True, eq=False)
class SavepointWriter:
    """Writes one savepoint."""

    spark: SparkSession
    target: str
    max_parallelism: int
    """That of the job, for operators that have none of their own."""
    tasks: int

    def write(
        self,
        declared: Declared,
        keyed: list[GivenState],
        units: Units,
        *,
        origin: Origin | None = None,
        sources: Mapping[str, Any] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> str:
        """Write it, and return its path.

        All of ``origin`` is carried over that is not given. ``sources`` are what the coordinator
        is to know of them. ``check`` is called when all is written, and may still refuse.
        """
        storage = open_storage(self.target)
        reserve(storage, self.target)
        created_at = time.time()
        try:
            prepare(self.spark)
            files = {each.name: self._write_keyed(declared, each, created_at) for each in keyed}
            files |= {name: [_write_units(storage, name, shares)] for name, shares in units.items()}
            if origin is not None:
                self._carry_over(storage, origin, files)
            _delete_others(storage, files)
            check()
            made = _savepoint(origin, declared, files, self.max_parallelism, created_at)
            publish(storage, made if sources is None else replace(made, sources=sources))
        except BaseException as error:
            discard(storage)
            if isinstance(error, SPARK_ERRORS):
                raise SavepointError(
                    f"the savepoint {self.target!r} was not written: {summary(str(error))}"
                ) from error
            raise
        return self.target

    def _write_keyed(
        self, declared: Declared, given: GivenState, created_at: float
    ) -> list[SavepointFile]:
        most = declared[given.columns.operator].key_groups(self.max_parallelism)
        tasks = min(self.tasks, most)
        whole = [StructField(name, IntegerType()) for name in (GROUP, TASK)]
        schema = StructType([*given.frame.schema.fields, *whole])
        add = AddGroups(given.columns, most, tasks)
        write = WriteGroups(given.columns, self.target, int(created_at * 1_000_000))
        results = (
            given.frame.mapInArrow(add, schema)
            .repartitionById(tasks, TASK)
            .drop(TASK)
            .sortWithinPartitions(GROUP)
            .mapInArrow(write, RESULT)
        )
        return [file for _, file in _collected(results)]

    def _carry_over(self, storage: Storage, origin: Origin, files: Files) -> None:
        """Add the files of what is not replaced. Operator state is short: the driver writes it."""
        pieces = pieces_of(_without(origin.manifest, set(files)))
        keyed = tuple(piece for piece in pieces if isinstance(piece, KeyedPiece))
        for piece in pieces:
            if not isinstance(piece, KeyedPiece):
                for uid, state, file in piece.write(open_existing(origin.place), storage):
                    files.setdefault((uid, state), []).append(file)
        if keyed:
            ids = self.spark.range(0, len(keyed), 1, len(keyed))
            copy = CopyPieces(origin.place, self.target, keyed)
            for name, file in _collected(ids.mapInArrow(copy, RESULT)):
                files.setdefault(name, []).append(file)


def _collected(results: DataFrame) -> list[tuple[StateName, SavepointFile]]:
    """The files that tasks wrote, of each task the attempt that counts; or what is wrong."""
    rows = [row.asDict() for row in results.collect()]
    problems = sorted(row["problem"] for row in rows if row["problem"] is not None)
    if problems:
        raise StateTypeError(f"{problems[0]} Nothing was written.")
    return [((row["operator"], row["state"]), file_of(row)) for row in rows]


def _write_units(storage: Storage, name: StateName, shares: list[pa.Array]) -> SavepointFile:
    return write_units(storage, operator_path(*name), shares, *name)


def _without(manifest: Manifest, replaced: set[StateName]) -> Manifest:
    """A manifest without some states, and without the files of a savepoint that are theirs."""
    operators = {
        uid: _without_states(stored, replaced) for uid, stored in manifest.operators.items()
    }
    return replace(manifest, operators=operators)


def _without_states(stored: OperatorState, replaced: set[StateName]) -> OperatorState:
    kept = [state for state in stored.states if (stored.uid, state.name) not in replaced]
    subtasks = (
        replace(
            task,
            chain=tuple(
                ref for ref in task.chain if any(may_hold(ref, stored.uid, s.name) for s in kept)
            ),
        )
        for task in stored.subtasks
    )
    return replace(stored, states=tuple(kept), subtasks=tuple(subtasks))


def _delete_others(storage: Storage, files: Files) -> None:
    """Delete what attempts that do not count have left, so that a whole folder can be read."""
    named = {item.file.path for items in files.values() for item in items}
    storage.delete(*(path for path in storage.list("state/") if path not in named))


def _savepoint(
    origin: Origin | None,
    declared: Declared,
    files: Files,
    max_parallelism: int,
    created_at: float,
) -> Savepoint:
    manifest = None if origin is None else origin.manifest
    return Savepoint(
        job=BOOTSTRAP if manifest is None else manifest.job,
        epoch=0 if manifest is None else manifest.epoch,
        created_at=created_at,
        mode="exactly_once" if manifest is None else manifest.mode,
        max_parallelism=max_parallelism,
        hash_id=HASH_ID,
        operators=_operators(manifest, declared, files),
        sources={} if manifest is None else manifest.sources,
    )


def _operators(
    manifest: Manifest | None, declared: Declared, files: Files
) -> dict[str, SavepointOperator]:
    """The operators of the base, and those with states that were given."""
    found = {}
    stored = {} if manifest is None else manifest.operators
    for uid, operator in declared.items():
        known = {s.name for s in stored[uid].states} if uid in stored else set()
        names = [name for name in operator.states if name in known or (uid, name) in files]
        if uid not in stored and not names:
            continue
        states = tuple(
            SavepointState(operator.states[name], tuple(files.get((uid, name), ())))
            for name in names
        )
        found[uid] = SavepointOperator(
            uid,
            operator.parallelism or 1,
            operator.key_type,
            operator.key_names,
            states,
            operator.max_parallelism,
        )
    return found
