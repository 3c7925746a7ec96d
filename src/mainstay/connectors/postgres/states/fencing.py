"""Raising the fence of an operator's tables to an attempt.

Every write holds the fence where it is until it ends, and a prepared one does so until somebody
settles it. So nobody waits here for long: who raises the fence settles what is prepared, and comes
again.
"""

from __future__ import annotations

from typing import Any

from mainstay.connectors.postgres.columns import composed
from mainstay.connectors.postgres.driver import driver
from mainstay.state.backends.external.store import TableSet
from mainstay.state.backends.external.votes import FenceHeldError

WAIT_MS = 1000

_ADMITTED = "SELECT attempt FROM {} WHERE (lineage, uid) = ({}, {})"
_RAISE = """
INSERT INTO {} AS f (lineage, uid, attempt) VALUES ({}, {}, {})
ON CONFLICT (lineage, uid) DO UPDATE SET attempt = excluded.attempt, raised_at = now()
WHERE f.attempt <= excluded.attempt
"""


def raise_fence(connection: Any, fence: Any, tables: TableSet, attempt: int) -> bool:
    """Admit an attempt, within a transaction; False where a later one is admitted."""
    whose = (tables.lineage, tables.uid)
    admitted = connection.execute(composed(_ADMITTED, fence, *whose)).fetchone()
    if admitted is not None and admitted[0] >= attempt:
        # Votes of this attempt may hold the fence already, and would be waited for.
        return bool(admitted[0] == attempt)
    connection.execute(f"SET LOCAL lock_timeout = {WAIT_MS}")
    try:
        raised = connection.execute(composed(_RAISE, fence, *whose, attempt))
    except driver().errors.LockNotAvailable as error:
        raise FenceHeldError(f"a write of another attempt of the {tables} is under way") from error
    connection.execute("SET LOCAL lock_timeout = 0")
    return bool(raised.rowcount == 1)
