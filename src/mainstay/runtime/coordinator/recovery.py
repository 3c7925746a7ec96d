"""Recovery: from a manifest to what each subtask of a job starts from.

Operators are matched by uid, states by name. An added state starts empty; a dropped one needs an
explicit word; a state of another type is converted where that loses nothing or migrated by a
function of the job's author (``upgrade``); anything else is refused before a worker starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mainstay.errors import RestoreError
from mainstay.runtime.coordinator.in_flight import in_flight_rows, without_channels
from mainstay.runtime.coordinator.numbering import check_numbers
from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.own_states import FEEDBACK, TIMES
from mainstay.runtime.spec import JobSpec, OperatorSpec
from mainstay.runtime.upgrading import StoredAs
from mainstay.snapshot.manifest import (
    Manifest,
    OperatorState,
    OperatorUnits,
    SegmentRef,
    StateSchema,
)
from mainstay.state.keygroups import HASH_ID, range_of, subtask_of
from mainstay.state.operator import decode_units, encode_units
from mainstay.state.redistribution import redistribute
from mainstay.state.rekeying import plan_keys
from mainstay.state.upgrade import StateUpgrade, plan_state, schema_of
from mainstay.state.values import PICKLED

__all__ = ["RestorePlan", "key_names_of", "key_type_of", "plan_restore", "schema_of"]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What each (uid, subtask) starts from, and a line for each thing a person should know."""

    states: dict[tuple[str, int], RestoredState]
    report: tuple[str, ...]


def plan_restore(
    manifest: Manifest,
    job: JobSpec,
    allow_dropped: frozenset[str],
    *,
    rewrite: bool = False,
    origin: str | None = None,
) -> RestorePlan:
    """Match a manifest with a job, or say why they do not fit.

    ``origin`` is where the files are that it names, if they are not the job's own.
    """
    _check_hash(manifest)
    if not job.allow_pickle:
        _check_no_pickles(manifest, job, allow_dropped)
    in_flight = in_flight_rows(manifest, job, allow_dropped)
    manifest = without_channels(manifest)
    report = [f"in-flight rows go on to operator {uid!r}" for uid in in_flight]
    states: dict[tuple[str, int], RestoredState] = {}
    specs = {operator.uid: (task.parallelism, operator) for task, operator in job.operators()}
    holding = [uid for uid, stored in manifest.operators.items() if _holds_state(stored)]
    check_numbers(manifest.operators, holding, job)
    for uid in sorted(set(manifest.operators) - set(specs)):
        _drop_operator(manifest.operators[uid], allow_dropped, report)
    for uid, (parallelism, operator) in specs.items():
        stored = manifest.operators.get(uid)
        if stored is None:
            report.append(f"added operator {uid!r}: starts empty")
            continue
        _check_key_groups(manifest, stored, job, operator)
        match = _match(stored, operator, allow_dropped)
        report.extend(match.report)
        if stored.parallelism != parallelism and _holds_state(stored):
            report.append(
                f"rescaled operator {uid!r} from {stored.parallelism} to {parallelism} subtasks"
            )
        restored = _distribute(stored, match, parallelism, job.key_groups(operator), rewrite)
        for subtask, state in enumerate(restored):
            is_foreign = origin is not None
            states[(uid, subtask)] = replace(
                state,
                rewrite=state.rewrite or is_foreign,
                origin=origin,
                in_flight=in_flight.get(uid, ()),
            )
    return RestorePlan(states, tuple(report))


def key_type_of(operator: OperatorSpec) -> str | None:
    return operator.key.type.ddl if operator.key is not None else None


def key_names_of(operator: OperatorSpec) -> tuple[str, ...]:
    """The columns of an operator's key; none where a function made it."""
    key = operator.key
    return () if key is None or key.hidden else tuple(key.names)


def _check_hash(manifest: Manifest) -> None:
    if manifest.hash_id != HASH_ID:
        raise RestoreError(
            f"epoch {manifest.epoch} was written with the key hash {manifest.hash_id!r}, this "
            f"version of Mainstay uses {HASH_ID!r}. Restore it with the version that wrote it."
        )


def _check_key_groups(
    manifest: Manifest, stored: OperatorState, job: JobSpec, operator: OperatorSpec
) -> None:
    """Refuse keyed state in another number of key-groups than the operator has."""
    before, now = manifest.key_groups(stored.uid), job.key_groups(operator)
    if stored.key_type is None or before == now:
        return
    is_own = stored.max_parallelism is not None or operator.max_parallelism is not None
    rebucketed = f"{{{stored.uid!r}: {now}}}" if is_own else f"{now}"
    raise RestoreError(
        f"operator {stored.uid!r}: epoch {manifest.epoch} was written with "
        f"max_parallelism={before}, the job asks for {now}. Keys are bound to their key-groups for "
        f"the life of the state: set max_parallelism={before}, or rewrite the state with "
        f"mainstay.spark.rebucket(spark, source, target, max_parallelism={rebucketed}) and start "
        "from the target."
    )


def _check_no_pickles(manifest: Manifest, job: JobSpec, allow_dropped: frozenset[str]) -> None:
    """Refuse what could only be read by unpickling it, before anybody does."""
    uids = {operator.uid for _, operator in job.operators()}
    pickled = [
        f"{uid}.{state.name}"
        for uid, stored in manifest.operators.items()
        for state in stored.states
        if PICKLED in (state.value_type, state.map_key_type)
        and not (f"{uid}.{state.name}" in allow_dropped or uid not in uids)
    ]
    if pickled:
        raise RestoreError(
            f"the snapshot holds pickled values of the states {', '.join(sorted(pickled))}, which "
            "were stored without a declared type, and allow_pickle=False forbids to unpickle them: "
            "anyone who can write to the snapshot could run code here. If you trust it, restore it "
            "once with allow_pickle=True and a declared type with migrate=..., and go on from the "
            f"next snapshot; or give them up with allow_dropped={sorted(pickled)!r}."
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
    needed = [f"{stored.uid}.{name}" for name in names if name not in TIMES]
    missing = [name for name in needed if name not in allowed]
    if missing and schema_of(FEEDBACK) in stored.states:
        raise RestoreError(
            f"the job has no loop {stored.uid!r}, but the snapshot holds rows that were in it. "
            "Start the program that has the loop once more, end it with job.stop(drain=True), "
            "which waits until no row is left in it, and start this one from there. To lose these "
            f"rows for good, say allow_dropped={missing!r}."
        )
    if missing:
        raise RestoreError(
            f"the job has no operator {stored.uid!r}, but the snapshot holds its state. Give the "
            f"operator that should have it uid={stored.uid!r}, or drop the state for good with "
            f"allow_dropped={missing!r}."
        )
    report.append(f"dropped operator {stored.uid!r} with its states {names}")


@dataclass(frozen=True, slots=True)
class _Match:
    """What becomes of a stored operator."""

    upgrades: tuple[StateUpgrade, ...]
    keys: str
    has_dropped: bool
    report: tuple[str, ...]

    @property
    def is_upgrade(self) -> bool:
        return self.keys != "same" or any(
            upgrade.is_needed for upgrade in self.upgrades if upgrade.info.is_keyed
        )


def _match(stored: OperatorState, operator: OperatorSpec, allowed: frozenset[str]) -> _Match:
    """Check every stored state against its declaration."""
    declared = {info.name: info for info in operator.states}
    keys = "same"
    if any(subtask.chain for subtask in stored.subtasks):
        key = operator.key
        declared_key = None if key is None else key.type
        has_function = key is not None and key.migrate is not None
        keys = plan_keys(stored.uid, stored.key_type, declared_key, has_function)
    report = []
    if keys != "same":
        report.append(
            f"{keys} the key of operator {stored.uid!r}: {stored.key_type} to "
            f"{key_type_of(operator)}"
        )
    allowed = allowed | {f"{stored.uid}.{name}" for name in operator.given_up}
    upgrades = []
    kept = [state for state in stored.states if state.name in declared or _is_kept(stored, state)]
    stored = replace(stored, states=tuple(kept))
    gone = [state.name for state in stored.states if state.name not in declared]
    for state in stored.states:
        name = f"{stored.uid}.{state.name}"
        if state.name in declared:
            upgrades.append(plan_state(name, state, declared[state.name], allowed))
            report.append(upgrades[-1].line(name))
        else:
            _check_dropped(name, stored.uid, allowed)
            report.append(f"dropped state {name!r}")
    known = {state.name for state in stored.states}
    report.extend(
        f"added state '{stored.uid}.{name}': starts empty" for name in declared if name not in known
    )
    return _Match(tuple(upgrades), keys, bool(gone), tuple(report))


def _is_kept(stored: OperatorState, state: StateSchema) -> bool:
    """Whether there is anything in a state; of operator state that is known."""
    if state.name in TIMES and state.redistribute is not None:
        return False
    units = (subtask.units.get(state.name) for subtask in stored.subtasks)
    return state.redistribute is None or any(each is not None and each.count for each in units)


def _check_dropped(name: str, uid: str, allowed: frozenset[str]) -> None:
    if name not in allowed:
        raise RestoreError(
            f"state {name!r} is in the snapshot, but operator {uid!r} no longer declares it. "
            f"Declare it again, or drop it for good with allow_dropped=[{name!r}]."
        )


def _distribute(
    stored: OperatorState, match: _Match, parallelism: int, max_parallelism: int, rewrite: bool
) -> list[RestoredState]:
    """Give each new subtask the parts of the old chains that lie in its key-groups."""
    units = redistribute(_upgraded_units(stored, match.upgrades), parallelism)
    rewrite = rewrite or match.has_dropped or match.is_upgrade
    stored_as = StoredAs(stored.key_type, stored.states) if match.is_upgrade else None
    refs = [ref for old in stored.subtasks for ref in old.chain]
    if match.keys == "migrated":
        # A new key may be in any key-group, so what is whose is known only after reading.
        chains = [refs] * parallelism
    else:
        chains = _chains(refs, parallelism, max_parallelism)
    return [
        RestoredState(tuple(chain), own, rewrite, stored_as=stored_as)
        for chain, own in zip(chains, units, strict=True)
    ]


def _chains(
    refs: Sequence[SegmentRef], parallelism: int, max_parallelism: int
) -> list[list[SegmentRef]]:
    """The segments of each new subtask. Each is looked at once, whatever the parallelism."""
    ranges = [range_of(subtask, parallelism, max_parallelism) for subtask in range(parallelism)]
    chains: list[list[SegmentRef]] = [[] for _ in ranges]
    for ref in refs:
        first = subtask_of(ref.first_group, parallelism, max_parallelism)
        last = subtask_of(ref.last_group, parallelism, max_parallelism)
        for subtask in range(first, last + 1):
            clipped = ref.clipped(ranges[subtask].first, ranges[subtask].last)
            if clipped is not None:
                chains[subtask].append(clipped)
    return chains


def _upgraded_units(
    stored: OperatorState, upgrades: Sequence[StateUpgrade]
) -> list[dict[str, OperatorUnits]]:
    """The operator state of each old subtask, in the declared types. It is short by its nature."""
    needed = {each.info.name: each for each in upgrades if each.is_needed}
    return [
        {
            name: _upgraded(units, needed[name]) if name in needed else units
            for name, units in subtask.units.items()
        }
        for subtask in stored.subtasks
    ]


def _upgraded(units: OperatorUnits, upgrade: StateUpgrade) -> OperatorUnits:
    kept = upgrade.units(decode_units(units.data))
    return replace(units, count=len(kept), data=encode_units(kept))
