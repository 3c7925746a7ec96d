"""Gates in a server: statements of a job that come to one do not end until the server has crashed.

Triggers wait for an advisory lock, reads and fences for the locks of the server. A commit of what
was prepared fires no trigger; it waits for a standby that there is not, when it is on the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from tests.drive.ledger import await_until

STATEMENTS = {
    "read": r"^\s*SELECT .*k, s, v FROM .* WHERE k = ANY",
    "fence": r"^\s*SELECT attempt FROM .*mainstay_state_fence.* FOR SHARE",
    "stage": r"^\s*COPY .* FROM STDIN",
    "apply": r"^\s*INSERT INTO .* ON CONFLICT \(k, s\)",
    "ledger": r"^\s*INSERT INTO .*mainstay_state_ledger",
    "commit": r"^\s*COMMIT",
    "pointer": r"^\s*UPDATE .*mainstay_state_pointer.* SET epoch =",
    "commit of pointer": r"^\s*COMMIT",
    "fold": r"^\s*WITH newest AS",
    "commit of fold": r"^\s*COMMIT",
    "prepare": r"^\s*PREPARE TRANSACTION",
    "commit prepared": r"^\s*COMMIT PREPARED",
}
"""What a statement at a point looks like, to the driver and to the server."""

LOCKS = {
    "apply": 471_101,
    "fold": 471_101,
    "ledger": 471_102,
    "commit": 471_103,
    "prepare": 471_103,
    "pointer": 471_104,
    "commit of pointer": 471_105,
    "commit of fold": 471_106,
}
"""The locks that triggers wait for. What is deferred waits at the end of its transaction."""

_SESSION = "mainstay_state"

# Half of the rows of each subtask are written when a segment is held. Rows come in order of k,
# which begins with the key-group; the groups of the two subtasks are 0 to 63 and 64 to 127.
# The lock is given back at once, because a transaction that is prepared would keep it.
_TRIGGERS = """
CREATE FUNCTION "{schema}".held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_lock_shared(TG_ARGV[0]::bigint);
    PERFORM pg_advisory_unlock_shared(TG_ARGV[0]::bigint);
    RETURN NEW;
END $$;
CREATE TRIGGER held BEFORE INSERT ON {table} FOR EACH ROW
    WHEN (get_byte(NEW.k, 1) % 64 >= 32) EXECUTE FUNCTION "{schema}".held({apply});
CREATE TRIGGER held BEFORE INSERT ON "{schema}".mainstay_state_ledger FOR EACH ROW
    EXECUTE FUNCTION "{schema}".held({ledger});
CREATE CONSTRAINT TRIGGER held_at_the_end AFTER INSERT ON "{schema}".mainstay_state_ledger
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "{schema}".held({commit});
"""
_POINTER_TRIGGERS = """
CREATE TRIGGER held BEFORE UPDATE OF epoch ON "{schema}".mainstay_state_pointer FOR EACH ROW
    EXECUTE FUNCTION "{schema}".held({pointer});
CREATE CONSTRAINT TRIGGER held_at_the_end AFTER UPDATE OF epoch
    ON "{schema}".mainstay_state_pointer DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION "{schema}".held({pointer_end});
CREATE CONSTRAINT TRIGGER held_after_a_fold AFTER UPDATE OF folded
    ON "{schema}".mainstay_state_pointer DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION "{schema}".held({fold_end});
"""
_HELD = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state = 'active'
AND query ~ %s AND (wait_event_type = 'Lock' OR wait_event = 'SyncRep' OR %s)
"""
_PROBED = (
    "SELECT 1 FROM pg_stat_activity WHERE application_name = 'probe' AND wait_event = 'SyncRep'"
)


def install(dsn: str, schema: str, table: str, *, is_versioned: bool) -> None:
    """Make the triggers that hold statements on the table of a state, when they are told to."""
    locks = LOCKS | {"pointer_end": 471_105, "fold_end": 471_106}
    triggers = _TRIGGERS + (_POINTER_TRIGGERS if is_versioned else "")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(triggers.format(schema=schema, table=table, **locks))


@contextmanager
def held_inside(dsn: str, schema: str, table: str, point: str) -> Iterator[None]:
    """Statements at a point do not end, until the server has crashed."""
    with psycopg.connect(dsn) as connection:
        if point in LOCKS:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCKS[point]])
        elif point == "read":
            _take(connection, f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE NOWAIT")
        else:
            _take(connection, f'SELECT 1 FROM "{schema}".mainstay_state_fence FOR UPDATE NOWAIT')
        try:
            yield
        finally:
            connection.close()


def _take(connection: Any, statement: str) -> None:
    """Take a lock without standing in line: who waits for one keeps others from a vote, and so
    the votes that hold it from being committed."""

    def is_taken() -> bool:
        with suppress(psycopg.errors.LockNotAvailable):
            connection.execute(statement)
            return True
        connection.rollback()
        return False

    await_until(is_taken, f"nobody holds the lock of {statement}")


def is_inside(dsn: str, point: str) -> bool:
    """Whether the server is at a statement of a job, and cannot end it."""
    values = [_SESSION, STATEMENTS[point], point == "stage"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((found,),) = connection.execute(_HELD, values).fetchall()
    return bool(found)


@contextmanager
def commits_held(dsn: str) -> Iterator[None]:
    """Whatever is committed waits for a standby until the server has crashed. Then it is there."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        probing = threading.Thread(target=_probe, args=[dsn], daemon=True)
        probing.start()
        try:
            await_until(lambda: connection.execute(_PROBED).fetchall(), "commits are held")
        finally:
            # The server reads this when it starts again.
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
    yield
    probing.join()


def _probe(dsn: str) -> None:
    """Commit again and again, until the server has crashed."""
    with (
        suppress(psycopg.OperationalError),
        psycopg.connect(dsn, autocommit=True, application_name="probe") as connection,
    ):
        while True:
            connection.execute("SELECT pg_current_xact_id()")
