"""The transactions that a source of PostgreSQL waits for, told to people.

A reader waits for transactions as a matter of course, for a moment. One that stays open holds it up
for as long, wherever on the server it is, and nobody would think of it. So a wait that lasts is
told with what it takes to end it.
"""

from __future__ import annotations

from datetime import datetime, timezone

from mainstay.connectors.postgres.session import Session

ASK_AFTER_S = 5.0
"""How long a wait has to last before the server is asked for whom, and how often it is asked."""
MOST_NAMED = 5

SHORT = "transactions that may have taken a lower value have not ended"
REMEDY = (
    "Have them ended. A prepared transaction of a job that lives (its name begins with mainstay_) "
    "is committed by that job"
)
HIDDEN = (
    "the role may not see which (GRANT pg_read_all_stats to it); look at pg_stat_activity and "
    "pg_prepared_xacts"
)

# Ids are compared by age, because those in the views are cut to 32 bits.
_SESSIONS = """
SELECT pid, application_name, state, xact_start FROM pg_stat_activity
WHERE age(backend_xid) > age(%s::text::xid) AND pid <> pg_backend_pid()
ORDER BY xact_start
"""
_PREPARED = """
SELECT gid, database, prepared FROM pg_prepared_xacts
WHERE age(transaction) > age(%s::text::xid) ORDER BY prepared
"""
XIDS = 2**32


class Wait:
    """A reader's wait for transactions, if there is one."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._asked_at = 0.0
        self._told = SHORT

    def told(self, session: Session, awaited: int | None, now: float) -> str | None:
        """What is waited for: those with ids below ``awaited``; None if nothing is."""
        if awaited is None:
            self._since = None
            return None
        if self._since is None:
            self._since, self._asked_at, self._told = now, now, SHORT
        if now - self._asked_at >= ASK_AFTER_S:
            self._asked_at, self._told = now, _named(session, awaited)
        return self._told


def _named(session: Session, awaited: int) -> str:
    id = [str(awaited % XIDS)]
    found = [_session(*row) for row in session.ask(_SESSIONS, id)]
    found += [_prepared(*row) for row in session.ask(_PREPARED, id)]
    if not found:
        return f"{SHORT}; {HIDDEN}"
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{SHORT}: {', '.join(found[:MOST_NAMED])}{more}. {REMEDY}"


def _session(pid: int, application: str, state: str | None, since: datetime | None) -> str:
    # What another role does is not shown.
    what = f"{application!r}, {state or 'state unknown'}{_shown(since)}"
    return f"session {pid} ({what}; end it with SELECT pg_terminate_backend({pid}))"


def _prepared(gid: str, database: str, since: datetime) -> str:
    name = gid.replace("'", "''")
    return (
        f"prepared transaction {gid!r} (in database {database!r}{_shown(since)}; end it there with "
        f"ROLLBACK PREPARED '{name}')"
    )


def _shown(since: datetime | None) -> str:
    if since is None:
        return ""
    return f", since {since.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
