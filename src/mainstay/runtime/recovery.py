"""Recovery: from a manifest to what each subtask of a job starts from.

Operators are matched by uid, states by name. An added state starts empty; a dropped one needs an
explicit word; anything that does not fit is refused before a worker starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstay.errors import RestoreError
from mainstay.runtime.spec import JobSpec, OperatorSpec
from mainstay.runtime.stateful import RestoredState
from mainstay.snapshot.manifest import Manifest, OperatorState, StateSchema
from mainstay.state.declaration import StateInfo
from mainstay.state.keygroups import HASH_ID, range_of
from mainstay.state.redistribution import redistribute


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What each (uid, subtask) starts from, and a line for each thing a person should know."""

    states: dict[tuple[str, int], RestoredState]
    report: tuple[str, ...]


def plan_restore(
    manifest: Manifest, job: JobSpec, allow_dropped: frozenset[str], *, rewrite: bool = False
) -> RestorePlan:
    """Match a manifest with a job, or say why they do not fit."""
    _check_key_groups(manifest, job)
    report: list[str] = []
    states: dict[tuple[str, int], RestoredState] = {}
    specs = {operator.uid: (task.parallelism, operator) for task, operator in job.operators()}
    for uid in sorted(set(manifest.operators) - set(specs)):
        _drop_operator(manifest.operators[uid], allow_dropped, report)
    for uid, (parallelism, operator) in specs.items():
        stored = manifest.operators.get(uid)
        if stored is None:
            report.append(f"added operator {uid!r}: starts empty")
            continue
        dropped = _match_states(stored, operator, allow_dropped, report)
        restored = _distribute(stored, parallelism, manifest.max_parallelism, rewrite or dropped)
        states.update({(uid, subtask): state for subtask, state in enumerate(restored)})
    return RestorePlan(states, tuple(report))


def schema_of(info: StateInfo) -> StateSchema:
    """How a manifest describes a declared state."""
    map_key = info.map_key.ddl if info.map_key is not None else None
    return StateSchema(info.name, info.kind, info.value.ddl, map_key, info.redistribute)


def key_type_of(operator: OperatorSpec) -> str | None:
    return operator.key.type.ddl if operator.key is not None else None


def _check_key_groups(manifest: Manifest, job: JobSpec) -> None:
    if manifest.hash_id != HASH_ID:
        raise RestoreError(
            f"epoch {manifest.epoch} was written with the key hash {manifest.hash_id!r}, this "
            f"version of Mainstay uses {HASH_ID!r}. Restore it with the version that wrote it."
        )
    if manifest.max_parallelism != job.max_parallelism:
        raise RestoreError(
            f"epoch {manifest.epoch} was written with max_parallelism={manifest.max_parallelism}, "
            f"the job asks for {job.max_parallelism}. Keys are bound to their key-groups for the "
            f"life of the state: set max_parallelism={manifest.max_parallelism}."
        )


def _holds_state(stored: OperatorState) -> bool:
    return any(
        subtask.chain or any(units.count for units in subtask.units.values())
        for subtask in stored.subtasks
    )


def _drop_operator(stored: OperatorState, allowed: frozenset[str], report: list[str]) -> None:
    if not _holds_state(stored):
        return
    names = [state.name for state in stored.states]
    missing = [f"{stored.uid}.{name}" for name in names if f"{stored.uid}.{name}" not in allowed]
    if missing:
        raise RestoreError(
            f"the job has no operator {stored.uid!r}, but the snapshot holds its state. Give the "
            f"operator that should have it uid={stored.uid!r}, or drop the state for good with "
            f"allow_dropped={missing!r}."
        )
    report.append(f"dropped operator {stored.uid!r} with its states {names}")


def _match_states(
    stored: OperatorState, operator: OperatorSpec, allowed: frozenset[str], report: list[str]
) -> bool:
    """Check every stored state against its declaration; True when one was dropped."""
    declared = {info.name: schema_of(info) for info in operator.states}
    key_type = key_type_of(operator)
    if stored.key_type != key_type and any(subtask.chain for subtask in stored.subtasks):
        raise RestoreError(
            f"operator {stored.uid!r} was keyed by {stored.key_type}, and is now keyed by "
            f"{key_type}. Key it by {stored.key_type} as before, or give it another uid to start "
            "empty."
        )
    dropped = False
    for state in stored.states:
        name = f"{stored.uid}.{state.name}"
        if state.name in declared:
            _check_same(name, state, declared[state.name])
        elif name in allowed:
            dropped = True
            report.append(f"dropped state {name!r}")
        else:
            raise RestoreError(
                f"state {name!r} is in the snapshot, but operator {stored.uid!r} no longer "
                f"declares it. Declare it again, or drop it for good with "
                f"allow_dropped=[{name!r}]."
            )
    known = {state.name for state in stored.states}
    report.extend(
        f"added state '{stored.uid}.{name}': starts empty" for name in declared if name not in known
    )
    return dropped


def _check_same(name: str, stored: StateSchema, declared: StateSchema) -> None:
    if stored == declared:
        return
    raise RestoreError(
        f"state {name!r} was stored as {_described(stored)} and is now declared as "
        f"{_described(declared)}. Declare it as before, or give it another name to start empty."
    )


def _described(state: StateSchema) -> str:
    types = state.value_type
    if state.map_key_type is not None:
        types = f"{state.map_key_type} to {state.value_type}"
    how = f" ({state.redistribute})" if state.redistribute is not None else ""
    return f"{state.kind} of {types}{how}"


def _distribute(
    stored: OperatorState, parallelism: int, max_parallelism: int, rewrite: bool
) -> list[RestoredState]:
    """Give each new subtask the parts of the old chains that lie in its key-groups."""
    units = redistribute([subtask.units for subtask in stored.subtasks], parallelism)
    restored = []
    for subtask in range(parallelism):
        groups = range_of(subtask, parallelism, max_parallelism)
        clipped = (
            ref.clipped(groups.first, groups.last) for old in stored.subtasks for ref in old.chain
        )
        chain = tuple(ref for ref in clipped if ref is not None)
        restored.append(RestoredState(chain, units[subtask], rewrite))
    return restored
