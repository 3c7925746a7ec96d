"""Raising the fence of an operator's tables to an attempt.

Every write holds the fence where it is until it ends, and a prepared one does so until somebody
settles it. So nobody waits here for long: who raises the fence settles what is prepared, and comes
again.

A write may also be of a worker that is frozen, or whose machine is gone: its server would wait for
it for hours. So after a while the sessions that hold the fence are ended. That loses nothing: what
they had not committed is in the snapshot storage, and the attempt that raises the fence applies it.
"""

from __future__ import annotations

from typing import Any

from mainstay.connectors.postgres.columns import composed
from mainstay.connectors.postgres.driver import driver
from mainstay.state.backends.external.store import TableSet
from mainstay.state.backends.external.votes import FenceHeldError

WAIT_MS = 1000
WAITS = 5
"""How often a writer is waited for before its session is ended."""
ENDING_MS = 5000

BESIDE = """
UNION ALL SELECT {nothing}, int8send(attempt) FROM {fence} WHERE (lineage, uid) = ({lineage}, {uid})
"""
"""What a read asks beside its rows: the attempt that is admitted, as the one row without a ``k``.
One statement sees both as of one moment."""
# The lock has no other purpose than to tell which sessions hold the fence of an operator.
_HOLD = """
SELECT attempt, pg_advisory_xact_lock_shared(hashtextextended({whose}, 2)) FROM {fence}
WHERE (lineage, uid) = ({lineage}, {uid}) FOR SHARE
"""
_HOLDERS = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND (classid::bigint << 32 | objid::bigint) = hashtextextended({whose}, 2)
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND pid <> pg_backend_pid()
"""
_ADMITTED = "SELECT attempt FROM {} WHERE (lineage, uid) = ({}, {})"
_RAISE = """
INSERT INTO {} AS f (lineage, uid, attempt) VALUES ({}, {}, {})
ON CONFLICT (lineage, uid) DO UPDATE SET attempt = excluded.attempt, raised_at = now()
WHERE f.attempt <= excluded.attempt
"""


def fence_beside(fence: Any, tables: TableSet, nothing: str) -> Any:
    """``BESIDE`` for a read whose other columns are empty there as ``nothing`` says."""
    sql = driver().sql
    whose = {"lineage": tables.lineage, "uid": tables.uid}
    return composed(BESIDE, nothing=sql.SQL(nothing), fence=fence, **whose)


def hold_fence(connection: Any, fence: Any, tables: TableSet) -> int | None:
    """The attempt that is admitted, which stays so until the transaction ends."""
    names = {"lineage": tables.lineage, "uid": tables.uid, "whose": _whose(tables)}
    found = connection.execute(composed(_HOLD, fence=fence, **names)).fetchone()
    return None if found is None else int(found[0])


def _whose(tables: TableSet) -> str:
    return f"{tables.lineage}/{tables.uid}"


def end_holders(connection: Any, tables: TableSet) -> str:
    """End the sessions that hold the fence of an operator; what came of it, in words."""
    found = connection.execute(composed(_HOLDERS, whose=_whose(tables))).fetchall()
    pids = sorted(pid for (pid,) in found)
    if not pids:
        return "no session of this version holds it; pg_stat_activity says who is in a transaction"
    shown = ", ".join(map(str, pids))
    try:
        connection.execute(
            "SELECT pg_terminate_backend(pid, %s) FROM unnest(%s::int[]) pid", [ENDING_MS, pids]
        )
    except driver().errors.InsufficientPrivilege:
        return (
            f"it is held by session {shown} of another role, which this one may not end. End it "
            f"with SELECT pg_terminate_backend({pids[0]}), or GRANT pg_signal_backend to this role"
        )
    return f"session {shown} held it for too long and was ended; what it wrote is written again"


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
