"""``write_savepoint`` and ``rebucket``: savepoints made of DataFrames.

Everything that can be checked is checked before anything is written. Then Spark jobs write the
files, and the driver publishes ``savepoint.json`` when all of them are there; if anything fails,
what was written is deleted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from mainstay.errors import GraphError, SavepointError, SchemaError, StateTypeError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.declared import (
    Declared,
    StateName,
    columns_of,
    declared_by_hand,
    declared_by_manifest,
    declared_by_program,
    joined,
)
from mainstay.inspect.fitting import fitting_columns, units_of
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
from mainstay.snapshot.storage import Storage, shared
from mainstay.spark.launch.launcher import summary
from mainstay.spark.states.source import frame_of, parallelism_of, prepare, quoted
from mainstay.spark.states.writing import (
    GROUP,
    RESULT,
    TASK,
    AddGroups,
    CopyPieces,
    WriteGroups,
    file_of,
)
from mainstay.state.declaration import StateDeclaration
from mainstay.state.keygroups import HASH_ID, check_max_parallelism

if TYPE_CHECKING:
    from mainstay.api.environment import Environment

DEFAULT_MAX_PARALLELISM = 128
BOOTSTRAP = "bootstrap"
"""The name of the job in a savepoint that no job has taken."""


def write_savepoint(
    path: str | os.PathLike[str],
    *,
    states: Mapping[StateName, DataFrame],
    base: str | os.PathLike[str] | None = None,
    program: Environment | None = None,
    declarations: Mapping[StateName, StateDeclaration] | None = None,
    keys: Mapping[str, str] | None = None,
    max_parallelism: int | None = None,
    partitions: int | None = None,
    spark: SparkSession | None = None,
) -> str:
    """Write a savepoint whose states are DataFrames; returns its path.

    ``states`` has a DataFrame for each (operator, state), with the columns that ``read_state``
    shows; ``key_group`` may be left out and is computed again. With a ``base`` (a savepoint, or an
    epoch of a snapshot directory) they replace its states, and all others are carried over.

    What a state is declared as is known from the base, else from the ``program``, the Environment
    of the job that will start from the savepoint, else from ``declarations``, such as
    ``{("totals", "total"): ValueState("long")}``, and ``keys``, the columns of an operator's key,
    such as ``{"totals": "customer string"}``.
    """
    origin = None if base is None else Origin.open(os.fspath(base))
    declared = _declared(origin, program, declarations or {}, keys or {})
    most = _max_parallelism(max_parallelism, origin, program)
    session = spark or _session_of(states.values())
    frames = dict(states)
    if origin is not None and origin.manifest.max_parallelism != most:
        # Keys move to other key-groups, so that nothing can be carried over as it is.
        frames = {**_keyed_frames(session, origin), **frames}
    given = [_given(declared, name, frame) for name, frame in frames.items()]
    units = {each.name: _units(declared, each) for each in given if not each.columns.is_keyed}
    declared = _with_parallelism(declared, units)
    keyed = [each for each in given if each.columns.is_keyed]
    writer = _Writer(session, shared(os.fspath(path)), most, partitions or parallelism_of(session))
    return writer.write(origin, declared, keyed, units)


def rebucket(
    spark: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    max_parallelism: int,
) -> str:
    """Write a savepoint of the same state for another ``max_parallelism``; returns its path.

    ``source`` is a savepoint, or an epoch of a snapshot directory. What has expired by its time to
    live when the source was taken is left out.
    """
    return write_savepoint(
        target, states={}, base=source, max_parallelism=max_parallelism, spark=spark
    )


# ---------------------------------------------------------------- what is asked for


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """A DataFrame that becomes a state: just the columns that it is made of."""

    columns: StateColumns
    frame: DataFrame

    @property
    def name(self) -> StateName:
        return self.columns.operator, self.columns.schema.name


Units = Mapping[StateName, list[pa.Array]]
"""The units of operator states, by subtask."""


def _declared(
    origin: Origin | None,
    program: Environment | None,
    declarations: Mapping[StateName, StateDeclaration],
    keys: Mapping[str, str],
) -> Declared:
    declared: Declared = {}
    if origin is not None:
        if origin.manifest.hash_id != HASH_ID:
            raise SavepointError(
                f"{origin.name!r} was written with the key hash {origin.manifest.hash_id!r}, this "
                f"version of Mainstay uses {HASH_ID!r}. Use the version that wrote it."
            )
        declared = declared_by_manifest(origin.manifest)
    if program is not None:
        declared = joined(declared, declared_by_program(program.plan()))
    return joined(declared, declared_by_hand(declarations, keys))


def _max_parallelism(given: int | None, origin: Origin | None, program: Environment | None) -> int:
    most = given
    if most is None and origin is not None:
        most = origin.manifest.max_parallelism
    if most is None:
        most = DEFAULT_MAX_PARALLELISM if program is None else program.max_parallelism
    check_max_parallelism(most)
    return most


def _session_of(frames: Iterable[DataFrame]) -> SparkSession:
    for frame in frames:
        return frame.sparkSession
    active = SparkSession.getActiveSession()
    if active is None:
        raise GraphError("write_savepoint() without DataFrames needs spark=<a session>.")
    return active


def _keyed_frames(spark: SparkSession, origin: Origin) -> dict[StateName, DataFrame]:
    """Every keyed state of an origin."""
    return {
        (uid, schema.name): frame_of(spark, origin, origin.view(uid, schema.name))
        for uid, stored in origin.manifest.operators.items()
        for schema in stored.states
        if schema.redistribute is None
    }


def _given(declared: Declared, name: StateName, frame: Any) -> _Given:
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
    return _Given(columns, frame.select(*map(quoted, taken)))


def _units(declared: Declared, given: _Given) -> list[pa.Array]:
    """The units of an operator state, which is short by its nature."""
    parallelism = declared[given.columns.operator].parallelism
    return units_of(given.columns, given.frame.toArrow(), parallelism)


def _with_parallelism(declared: Declared, units: Units) -> Declared:
    """What is declared, with as many subtasks as have units where no number is known."""
    found = dict(declared)
    for uid, _ in units:
        if declared[uid].parallelism is None:
            most = max(len(shares) for name, shares in units.items() if name[0] == uid)
            found[uid] = replace(declared[uid], parallelism=most)
    return found


# ---------------------------------------------------------------- writing

Files = dict[StateName, list[SavepointFile]]


@dataclass(frozen=True, slots=True, eq=False)
class _Writer:
    """Writes one savepoint."""

    spark: SparkSession
    target: str
    max_parallelism: int
    tasks: int

    def write(
        self, origin: Origin | None, declared: Declared, keyed: list[_Given], units: Units
    ) -> str:
        storage = open_storage(self.target)
        reserve(storage, self.target)
        created_at = time.time()
        try:
            prepare(self.spark)
            files = {each.name: self._write_keyed(each, created_at) for each in keyed}
            files |= {name: [_write_units(storage, name, shares)] for name, shares in units.items()}
            if origin is not None:
                self._carry_over(storage, origin, files)
            _delete_others(storage, files)
            publish(storage, _savepoint(origin, declared, files, self.max_parallelism, created_at))
        except BaseException as error:
            discard(storage)
            if isinstance(error, PySparkException | Py4JError):
                raise SavepointError(
                    f"the savepoint {self.target!r} was not written: {summary(str(error))}"
                ) from error
            raise
        return self.target

    def _write_keyed(self, given: _Given, created_at: float) -> list[SavepointFile]:
        tasks = min(self.tasks, self.max_parallelism)
        whole = [StructField(name, IntegerType()) for name in (GROUP, TASK)]
        schema = StructType([*given.frame.schema.fields, *whole])
        add = AddGroups(given.columns, self.max_parallelism, tasks)
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
    for path in storage.list("state/"):
        if path not in named:
            storage.delete(path)


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
            uid, operator.parallelism or 1, operator.key_type, operator.key_names, states
        )
    return found
