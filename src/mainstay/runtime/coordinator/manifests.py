"""From the acknowledgements of an epoch to its manifest."""

from __future__ import annotations

from mainstay.runtime.coordinator.epochs import PendingEpoch
from mainstay.runtime.coordinator.in_flight import with_channels
from mainstay.runtime.coordinator.recovery import key_names_of, key_type_of, schema_of
from mainstay.runtime.options import JobOptions
from mainstay.runtime.spec import JobSpec, OperatorSpec, TaskSpec
from mainstay.snapshot.manifest import Manifest, OperatorState
from mainstay.state.keygroups import HASH_ID


def manifest_of(pending: PendingEpoch, attempt: int, job: JobSpec, options: JobOptions) -> Manifest:
    """Everything that restoring this epoch needs. Every subtask must have acknowledged."""
    assert not pending.waiting, f"epoch {pending.epoch} waits for {sorted(pending.waiting)}"
    return Manifest(
        job=options.name,
        lineage=options.lineage,
        epoch=pending.epoch,
        attempt=attempt,
        mode=job.mode,
        max_parallelism=job.max_parallelism,
        hash_id=HASH_ID,
        created_at=pending.triggered_at,
        operators={
            operator.uid: _operator_state(pending, task, operator)
            for task, operator in job.operators()
        },
        sources=pending.sources,
    )


def _operator_state(pending: PendingEpoch, task: TaskSpec, operator: OperatorSpec) -> OperatorState:
    stored = OperatorState(
        uid=operator.uid,
        parallelism=task.parallelism,
        key_type=key_type_of(operator),
        states=tuple(schema_of(info) for info in operator.states),
        subtasks=tuple(
            pending.states[(task.id, subtask)][operator.uid] for subtask in range(task.parallelism)
        ),
        key_names=key_names_of(operator),
        max_parallelism=None if operator.key is None else operator.max_parallelism,
    )
    return with_channels(stored)
