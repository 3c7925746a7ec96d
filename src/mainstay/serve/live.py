"""Queries of live state, which the handle of the job answers."""

from __future__ import annotations

from mainstay.drive.handle import JobHandle
from mainstay.inspect.answers import Answer
from mainstay.inspect.exact_values import decoded
from mainstay.inspect.json_values import keys_of
from mainstay.inspect.live import MOST_ROWS, live_states
from mainstay.serve.requests import QueryRequest


def live_answers(job: JobHandle, request: QueryRequest, most: int) -> dict[str, Answer]:
    """What the workers hold just now, which a failure may roll back; at most ``most`` and one."""
    timeout = request.timeout_s
    if request.keys is None:
        limit = min(most + 1, MOST_ROWS)
        return job.query_states(request.states, limit=limit, timeout=timeout)
    if request.exact_keys:
        exact = [decoded(key) for key in request.keys]
        return job.query_states(request.states, keys=exact, timeout=timeout)
    spec, found = job.insight.spec, {}
    for state in request.states:
        known = None if spec is None else live_states(spec).get(state)
        keys = keys_of(None if known is None else known.columns, request.keys)
        found[state] = job.query(state, keys=keys, timeout=timeout)
    return found
