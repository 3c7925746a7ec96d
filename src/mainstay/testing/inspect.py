"""Reading the state of a completed epoch, the way a restored job would see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.spec import JobSpec, OperatorSpec
from mainstay.snapshot.checked import read_manifest
from mainstay.snapshot.commitlog import read_history
from mainstay.snapshot.manifest import Manifest, OperatorState
from mainstay.snapshot.storage import Storage
from mainstay.snapshot.units import with_units
from mainstay.state.backends.heap.backend import HeapBackend
from mainstay.state.broadcast import entries_in
from mainstay.state.info import StateInfo
from mainstay.state.kinds import BROADCAST_MAP
from mainstay.state.operator import values_in
from mainstay.state.segments import read_chain


def latest_manifest(storage: Storage) -> Manifest | None:
    """The manifest of the last epoch of the job, if there is one."""
    latest = read_history(storage).latest_epoch
    if latest is None:
        return None
    return with_units(storage, read_manifest(storage, latest.manifest))


def committed_state(storage: Storage, job: JobSpec, uid: str, state: str) -> Any:
    """What a state held at the last epoch.

    Keyed state comes as a dictionary from key to what ``get()`` would give (from key and namespace
    where it has one), operator state as a list of lists, one for each subtask, and
    broadcast state as a list of dictionaries.
    """
    return CommittedState(storage, job).of(uid, state)


class CommittedState:
    """What all states held at one epoch, the last there was at first. It is read once for all the
    states of an operator."""

    def __init__(self, storage: Storage, job: JobSpec) -> None:
        self._storage = storage
        self._job = job
        self._manifest = latest_manifest(storage)
        self._restored: dict[str, list[tuple[ProcessContext, HeapBackend]]] = {}

    def of(self, uid: str, state: str) -> Any:
        """What a state held, in the forms that ``committed_state`` gives."""
        spec, manifest = operator_of(self._job, uid), self._manifest
        stored = manifest.operators.get(uid) if manifest is not None else None
        info = _state(spec, state)
        if not info.is_keyed:
            subtasks = () if stored is None else stored.subtasks
            held = entries_in if info.kind == BROADCAST_MAP else values_in
            return [held(info, subtask.units[state]) for subtask in subtasks]
        if manifest is None or stored is None:
            return {}
        if uid not in self._restored:
            found = restored_backends(self._storage, self._job, spec, stored, manifest.created_at)
            self._restored[uid] = list(found)
        return dict(_keyed(self._restored[uid], state))


def operator_of(job: JobSpec, uid: str) -> OperatorSpec:
    """The operator with a uid, or an error that names those there are."""
    for _, operator in job.operators():
        if operator.uid == uid:
            return operator
    known = sorted(operator.uid for _, operator in job.operators())
    raise KeyError(f"there is no operator {uid!r}; the job has {known}")


def _state(spec: OperatorSpec, name: str) -> StateInfo:
    for info in spec.states:
        if info.name == name:
            return info
    known = sorted(info.name for info in spec.states)
    raise KeyError(f"operator {spec.uid!r} has no state {name!r}; it has {known}")


def _keyed(
    restored: Iterable[tuple[ProcessContext, HeapBackend]], state: str
) -> Iterator[tuple[Any, Any]]:
    for ctx, backend in restored:
        handle = backend.handles[state]
        for key, _ in backend.entries(state):
            _go_to(ctx, key, has_namespace=handle.info.namespace is not None)
            yield key, dict(handle.items()) if hasattr(handle, "items") else handle.get()


def _go_to(ctx: ProcessContext, key: Any, *, has_namespace: bool) -> None:
    """Let handles mean what a state is kept under: a key, or a key and a namespace."""
    ctx.current_key = key
    if has_namespace:
        ctx.current_key, namespace = key
        ctx.namespaced.enter(namespace)


def restored_backends(
    storage: Storage,
    job: JobSpec,
    spec: OperatorSpec,
    stored: OperatorState,
    created_at: float,
) -> Iterator[tuple[ProcessContext, HeapBackend]]:
    """The keyed state of each subtask as it was at an epoch, with the context of its handles."""
    assert spec.key is not None
    keyed = [info for info in spec.states if info.is_keyed]
    for subtask in stored.subtasks:
        ctx = ProcessContext(spec.uid, subtask.subtask, stored.parallelism)
        ctx.now_us = lambda: int(created_at * 1_000_000)
        backend = HeapBackend(keyed, spec.key.type, job.key_groups(spec), ctx)
        for table in read_chain(storage, subtask.chain):
            for _ in backend.apply(table):
                continue
        yield ctx, backend
