"""``write_savepoint`` and ``rebucket``: savepoints made of DataFrames.

Everything that can be checked is checked before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mainstay.errors import GraphError, SavepointError
from mainstay.inspect.declared import (
    Declared,
    StateName,
    declared_by_hand,
    declared_by_manifest,
    declared_by_program,
    joined,
)
from mainstay.inspect.fitting import units_of
from mainstay.inspect.reading import Origin
from mainstay.snapshot.storage import shared
from mainstay.spark.states.savepoint_writer import (
    GivenState,
    SavepointWriter,
    Units,
    given_state,
)
from mainstay.spark.states.source import frame_of, parallelism_of
from mainstay.spelling import did_you_mean
from mainstay.state.declaration import StateDeclaration
from mainstay.state.keygroups import HASH_ID, check_max_parallelism

if TYPE_CHECKING:
    from mainstay.api.environment import Environment

DEFAULT_MAX_PARALLELISM = 128


def write_savepoint(
    path: str | os.PathLike[str],
    *,
    states: Mapping[StateName, DataFrame],
    base: str | os.PathLike[str] | None = None,
    program: Environment | None = None,
    declarations: Mapping[StateName, StateDeclaration] | None = None,
    keys: Mapping[str, str] | None = None,
    max_parallelism: int | Mapping[str, int] | None = None,
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

    ``max_parallelism`` is that of the job; or ``{"totals": 64}`` is that of operators that have
    one of their own.
    """
    origin = None if base is None else Origin.open(os.fspath(base))
    declared = _declared(origin, program, declarations or {}, keys or {})
    declared = _with_own_groups(declared, max_parallelism)
    most = _max_parallelism(max_parallelism, origin, program)
    session = spark or _session_of(states.values())
    frames = dict(states)
    if origin is not None:
        frames = {**_moved_frames(session, origin, declared, most), **frames}
    given = [given_state(declared, name, frame) for name, frame in frames.items()]
    units = {each.name: _units(declared, each) for each in given if not each.columns.is_keyed}
    declared = _with_parallelism(declared, units)
    keyed = [each for each in given if each.columns.is_keyed]
    tasks = partitions or parallelism_of(session)
    writer = SavepointWriter(session, shared(os.fspath(path)), most, tasks)
    return writer.write(declared, keyed, units, origin=origin)


def rebucket(
    spark: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    max_parallelism: int | Mapping[str, int],
) -> str:
    """Write a savepoint of the same state for another ``max_parallelism``; returns its path.

    It is that of the job, and ``{"totals": 64}`` is that of operators that have one of their own.

    ``source`` is a savepoint, or an epoch of a snapshot directory. What has expired by its time to
    live when the source was taken is left out.
    """
    return write_savepoint(
        target, states={}, base=source, max_parallelism=max_parallelism, spark=spark
    )


# ---------------------------------------------------------------- what is asked for


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


def _with_own_groups(declared: Declared, given: int | Mapping[str, int] | None) -> Declared:
    """What is declared, with the numbers that are given for operators."""
    if not isinstance(given, Mapping):
        return declared
    found = dict(declared)
    for uid, most in given.items():
        if uid not in found:
            raise GraphError(
                f"max_parallelism names operator {uid!r}, which is unknown; there are "
                f"{sorted(found)}.{did_you_mean(uid, found)}"
            )
        check_max_parallelism(most)
        found[uid] = replace(found[uid], max_parallelism=most)
    return found


def _max_parallelism(
    given: int | Mapping[str, int] | None, origin: Origin | None, program: Environment | None
) -> int:
    most = None if isinstance(given, Mapping) else given
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


def _moved_frames(
    spark: SparkSession, origin: Origin, declared: Declared, most: int
) -> dict[StateName, DataFrame]:
    """The keyed states of an origin whose keys move to other key-groups: they cannot be carried
    over as they are."""
    return {
        (uid, schema.name): frame_of(spark, origin, origin.view(uid, schema.name))
        for uid, stored in origin.manifest.operators.items()
        for schema in stored.states
        if schema.redistribute is None
        and origin.manifest.key_groups(uid) != declared[uid].key_groups(most)
    }


def _units(declared: Declared, given: GivenState) -> list[pa.Array]:
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
