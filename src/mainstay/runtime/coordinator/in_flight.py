"""In-flight rows in a restore: from where a snapshot holds them to the operators that take them.

They are no state that could be dropped or start empty: a source does not send them again. They are
taken by the operator that they were sent to, wherever it runs now, in any mode. Where it is gone,
or takes other columns, the restore is refused, with a way on that loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from mainstay.errors import RestoreError
from mainstay.runtime.deployment import InFlight
from mainstay.runtime.edge_names import EdgeName, edge_name
from mainstay.runtime.own_states import INCOMING, OUTGOING
from mainstay.runtime.spec import InputSpec, JobSpec, OperatorSpec
from mainstay.schema import format_schema
from mainstay.schema.ipc import ipc_schema
from mainstay.snapshot.manifest import Manifest, OperatorState, StateSchema, SubtaskState
from mainstay.state.operator import values_in
from mainstay.state.upgrade import schema_of

CHANNELS = (INCOMING, OUTGOING)
"""In this order: what had arrived is before what had not been sent."""

_AS_STORED = {schema_of(info) for info in CHANNELS}

Unit = tuple[EdgeName, bytes]


def is_channel_state(state: StateSchema) -> bool:
    """Whether a state of a snapshot holds in-flight rows, and is nobody's own."""
    return state in _AS_STORED


def in_flight_rows(
    manifest: Manifest, job: JobSpec, allow_dropped: frozenset[str]
) -> dict[str, tuple[InFlight, ...]]:
    """What each operator of a job has to take before anything else, by its uid."""
    _check_not_dropped(manifest, allow_dropped)
    specs = {operator.uid: operator for _, operator in job.operators()}
    found: dict[str, list[InFlight]] = {}
    for name, rows in _units(manifest):
        name = _resolved(name, job)
        given = _input_for(name, ipc_schema(rows), specs, manifest)
        edge = _renewed(name, specs[name.consumer]).text
        units = found.setdefault(name.consumer, [])
        units.append(InFlight(edge, given.port, name.subtask, given.partitioning, rows, len(units)))
    return {uid: tuple(units) for uid, units in found.items()}


def without_channels(manifest: Manifest) -> Manifest:
    """The manifest without in-flight rows: what is left is matched state by state."""
    operators = {uid: _without_channels(state) for uid, state in manifest.operators.items()}
    return replace(manifest, operators=operators)


def with_channels(stored: OperatorState) -> OperatorState:
    """What the manifest says of an operator: of in-flight rows only where there are some."""
    names = {name for subtask in stored.subtasks for name in subtask.units}
    names -= {state.name for state in stored.states}
    held = tuple(schema_of(info) for info in CHANNELS if info.name in names)
    return replace(stored, states=stored.states + held)


def holds_in_flight_rows(manifest: Manifest) -> bool:
    """Whether a snapshot holds in-flight rows."""
    return any(True for _ in _holders(manifest))


def _without_channels(stored: OperatorState) -> OperatorState:
    names = {state.name for state in stored.states if is_channel_state(state)}
    if not names:
        return stored
    return replace(
        stored,
        states=tuple(state for state in stored.states if state.name not in names),
        subtasks=tuple(_without(subtask, names) for subtask in stored.subtasks),
    )


def _without(subtask: SubtaskState, names: set[str]) -> SubtaskState:
    units = {name: each for name, each in subtask.units.items() if name not in names}
    return replace(subtask, units=units)


# ---------------------------------------------------------------- what there is


def _holders(manifest: Manifest) -> Iterator[tuple[str, str, SubtaskState]]:
    """Where a snapshot holds in-flight rows: what had arrived first."""
    for info in CHANNELS:
        for stored in manifest.operators.values():
            if schema_of(info) in stored.states:
                for subtask in stored.subtasks:
                    if info.name in subtask.units and subtask.units[info.name].count:
                        yield stored.uid, info.name, subtask


def _units(manifest: Manifest) -> Iterator[Unit]:
    infos = {info.name: info for info in CHANNELS}
    for _, state, subtask in _holders(manifest):
        for unit in values_in(infos[state], subtask.units[state]):
            yield edge_name(unit.edge), unit.rows


def _check_not_dropped(manifest: Manifest, allow_dropped: frozenset[str]) -> None:
    held = {f"{uid}.{state}" for uid, state, _ in _holders(manifest)}
    named = sorted(held & allow_dropped)
    if named:
        raise RestoreError(
            f"allow_dropped={named!r}: this is no state of the program, but rows that were between "
            f"two operators when epoch {manifest.epoch} was taken. No source sends them again, so "
            "dropping them would lose them. Leave it out: they are replayed in any mode and at any "
            f"parallelism. {_way_on()}"
        )


def _way_on() -> str:
    return (
        "Where the program has changed too much for that, start the one that wrote the snapshot "
        'from it once more, end it with a savepoint, job.stop("path"), and start the changed one '
        "from that: a savepoint holds no in-flight rows."
    )


# ---------------------------------------------------------------- who takes it


def _resolved(name: EdgeName, job: JobSpec) -> EdgeName:
    """The name with the sender in it, as far as an old one says who that is."""
    if not name.is_old:
        return name
    chains = (task.operators for task in job.tasks if task.id == name.sender)
    uids = [member.uid for members in chains for member in members]
    sender = uids[name.place] if name.place < len(uids) else ""
    return name._replace(sender=sender)


def _input_for(
    name: EdgeName, schema: pa.Schema, specs: dict[str, OperatorSpec], manifest: Manifest
) -> InputSpec:
    """The input of an operator that takes such rows now, or the reason why there is none."""
    held = f"epoch {manifest.epoch} holds in-flight rows {name}"
    operator = specs.get(name.consumer)
    if operator is None:
        raise RestoreError(
            f"{held}, and the job has no operator {name.consumer!r}. Give the operator that should "
            f"take them uid={name.consumer!r}. {_way_on()}"
        )
    if not _is_the_same(name, operator):
        raise RestoreError(
            f"{held}, which has no uid of its own, and the operators without one have changed: "
            f"{name.consumer!r} may be another operator now. Write uid={name.consumer!r} at the "
            f"one that they were sent to, and uids of their own at the others. {_way_on()}"
        )
    same_port = [given for given in operator.inputs if given.port == name.port]
    # What an input is numbered may have changed; who sends to it is the better sign.
    senders = [*_of_output(same_port, name), *_of_output(operator.inputs, name)]
    fitting = [*senders, *same_port, *operator.other_forms]
    for given in fitting:
        if _columns(given.schema) == _columns(schema):
            return given
    raise RestoreError(
        f"{held} with the columns {format_schema(schema)!r}, and the operator does not take such "
        f"rows any more. {_way_on()}"
    )


def _is_the_same(name: EdgeName, operator: OperatorSpec) -> bool:
    """Whether the uid is that of the operator that the rows were sent to, as far as is known."""
    if operator.wiring is None:
        return True
    if name.is_old:
        return any(given.sender == name.sender for given in operator.inputs)
    return name.wiring == operator.wiring


def _renewed(name: EdgeName, operator: OperatorSpec) -> EdgeName:
    """What the rows are known by in the snapshots of this job."""
    return name._replace(kind=name.kind or "unknown", wiring=operator.wiring)


def _of_output(inputs: Iterable[InputSpec], name: EdgeName) -> list[InputSpec]:
    return [given for given in inputs if (given.sender, given.side) == (name.sender, name.side)]


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]
