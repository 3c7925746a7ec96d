"""States that a running job tells nobody about: those with ``queryable=False``.

It is the job that keeps silent. Its snapshots hold every state, for whom may read their files.
"""

from __future__ import annotations

from collections.abc import Collection

from mainstay.errors import QueryError
from mainstay.runtime.spec import JobSpec

ALLOW = (
    "Leave queryable=False out, where the state is declared and at its operator, "
    "to have it answered"
)


def hidden_states(job: JobSpec) -> frozenset[str]:
    """Their names, each ``operator.state``."""
    return frozenset(
        f"{operator.uid}.{info.name}"
        for _, operator in job.operators()
        for info in operator.states
        if not info.queryable
    )


def refuse_hidden(state: str, hidden: Collection[str]) -> None:
    """Raise where a state is not to be told about."""
    if state in hidden:
        raise QueryError(
            f"state {state!r} has queryable=False: a running job answers no question about it. "
            f"{ALLOW}."
        )
