"""Members of tasks for tests: an operator with its state, opened as a worker opens it."""

from __future__ import annotations

from mainstay.runtime.ports import Clock
from mainstay.runtime.spec import OperatorSpec
from mainstay.runtime.worker.member import Member
from mainstay.state.backends.contract import BackendSettings
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.subtask import KeyedSubtask, Owner


def opened(
    spec: OperatorSpec,
    subtask: int,
    parallelism: int,
    attempt: int,
    max_parallelism: int,
    groups: KeyGroupRange,
    backend: BackendSettings | None = None,
    clock: Clock | None = None,
) -> Member:
    owner = Owner(spec.uid, subtask, attempt, groups, max_parallelism)
    return Member(spec, owner, parallelism, backend or HeapSettings(), clock)


def keyed(member: Member) -> KeyedSubtask:
    """The keyed state of a member that has some."""
    assert member.keyed is not None
    return member.keyed
