"""Origins: what a job starts from that is not its own history.

An origin is the place of a savepoint (``./savepoints/monday``), or of another job's snapshots: its
latest epoch (``./snapshots``) or one that it still keeps (``./snapshots#17``). Either comes as a
manifest, so that everything after is as for any other restore. What it names belongs to somebody
else: the first epoch of the new job must not build on it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa

from mainstay.errors import DamagedFileError
from mainstay.runtime.coordinator.recovery import schema_of
from mainstay.runtime.feedback_log import with_rows
from mainstay.runtime.own_states import FEEDBACK, HANDLES
from mainstay.snapshot.checked import read_checked, read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.kept import kept_epochs, no_such_epoch
from mainstay.snapshot.manifest import (
    Manifest,
    OperatorState,
    OperatorUnits,
    SegmentRef,
    SubtaskState,
)
from mainstay.snapshot.savepoint import (
    Savepoint,
    SavepointOperator,
    SavepointState,
    is_savepoint,
    read_savepoint,
)
from mainstay.snapshot.savepoint_files import read_units
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.units import with_units
from mainstay.state.operator import encode_units


def place_of(origin: str) -> tuple[str, int | None]:
    """The place that an origin names, and the epoch there if it names one."""
    place, mark, epoch = origin.rpartition("#")
    return (place, int(epoch)) if mark and epoch.isdigit() else (origin, None)


def load_origin(storage: Storage, origin: str) -> Manifest:
    """The manifest of an origin; ``storage`` is what is at its place. Runs in the background."""
    place, epoch = place_of(origin)
    if epoch is None and (is_savepoint(storage) or not storage.list("log/")):
        return manifest_of_savepoint(storage, read_savepoint(storage, place))
    # Handles are left out first: what is large among them need not be read.
    manifest = without_handles(_manifest_of_epoch(storage, place, epoch))
    return with_logs(storage, with_units(storage, manifest))


def _manifest_of_epoch(storage: Storage, place: str, epoch: int | None) -> Manifest:
    history = read_history(storage)
    chosen = history.latest_epoch if epoch is None else history.epoch(epoch)
    where = f" in the snapshots at {place!r}"
    if chosen is None:
        raise no_such_epoch(storage, history, epoch, where)
    try:
        return read_manifest(storage, chosen.manifest)
    except DamagedFileError:
        if chosen == history.latest_epoch or chosen.epoch in kept_epochs(storage, history):
            raise
        raise no_such_epoch(storage, history, chosen.epoch, where) from None


def with_logs(storage: Storage, manifest: Manifest) -> Manifest:
    """The manifest with the rows of its loops in it, and not in files of the job that wrote it."""
    operators = {uid: _with_logs(storage, state) for uid, state in manifest.operators.items()}
    return replace(manifest, operators=operators)


def _with_logs(storage: Storage, stored: OperatorState) -> OperatorState:
    subtasks = tuple(_with_log(storage, subtask) for subtask in stored.subtasks)
    return replace(stored, subtasks=subtasks)


def _with_log(storage: Storage, subtask: SubtaskState) -> SubtaskState:
    if not subtask.kept:
        return subtask
    log = with_rows(subtask.units[FEEDBACK.name], partial(read_checked, storage))
    return replace(subtask, units={**subtask.units, FEEDBACK.name: log}, kept=())


def without_handles(manifest: Manifest) -> Manifest:
    """The manifest without what sinks have prepared: their commit is up to the job that did it."""
    operators = {uid: _without_handles(state) for uid, state in manifest.operators.items()}
    return replace(manifest, operators=operators)


def _without_handles(stored: OperatorState) -> OperatorState:
    if schema_of(HANDLES) not in stored.states:
        return stored
    nothing = OperatorUnits("split", 0, encode_units(HANDLES.value.to_array([])))
    subtasks = (
        replace(subtask, units={**subtask.units, HANDLES.name: nothing})
        for subtask in stored.subtasks
    )
    return replace(stored, subtasks=tuple(subtasks))


# ---------------------------------------------------------------- savepoints


def manifest_of_savepoint(storage: Storage, savepoint: Savepoint) -> Manifest:
    """A savepoint as the manifest of an epoch whose segments are its files."""
    return Manifest(
        job=savepoint.job,
        lineage="",
        epoch=savepoint.epoch,
        attempt=0,
        mode=savepoint.mode,
        max_parallelism=savepoint.max_parallelism,
        hash_id=savepoint.hash_id,
        created_at=savepoint.created_at,
        operators={
            uid: _operator_state(storage, operator) for uid, operator in savepoint.operators.items()
        },
        sources=savepoint.sources,
    )


def _operator_state(storage: Storage, operator: SavepointOperator) -> OperatorState:
    units: list[dict[str, OperatorUnits]] = [{} for _ in range(operator.parallelism)]
    for state in operator.states:
        if state.schema.redistribute is not None:
            for share, array in zip(units, _units_of(storage, operator, state), strict=True):
                how = state.schema.redistribute
                share[state.schema.name] = OperatorUnits(how, len(array), encode_units(array))
    chain = tuple(ref for state in operator.states for ref in _segments(state))
    return OperatorState(
        uid=operator.uid,
        parallelism=operator.parallelism,
        key_type=operator.key_type,
        states=tuple(state.schema for state in operator.states),
        # Which subtask had which key-groups does not matter any more.
        subtasks=tuple(
            SubtaskState(number, chain if number == 0 else (), share)
            for number, share in enumerate(units)
        ),
        key_names=operator.key_names,
        max_parallelism=operator.max_parallelism,
    )


def _units_of(
    storage: Storage, operator: SavepointOperator, state: SavepointState
) -> list[pa.Array]:
    (item,) = state.files
    return read_units(storage, item.file, operator.parallelism)


def _segments(state: SavepointState) -> list[SegmentRef]:
    return [
        SegmentRef(
            item.file.path, item.file, item.first_group, item.last_group, item.rows, is_base=True
        )
        for item in state.files
        if item.first_group is not None and item.last_group is not None
    ]
