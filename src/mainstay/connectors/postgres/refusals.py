"""What a server's error means: it refuses for good, or it is away and may be back.

By SQLSTATE. What is away: a connection (08), a transaction that met others (40, 55), resources
(53), an operator at work (57), the system below (58), a server that is only a copy just now (25).
All else somebody has to change: a value (22, 23), the tables and rights (42), a login (28), a limit
of the program itself (54), a trigger (P0 and states of its own).

A refused login has no SQLSTATE here: libpq hands out its text alone, in the server's language. So
it is known for one only in English, and for a server that is away otherwise.
"""

from __future__ import annotations

import re

from mainstay.connectors.postgres.driver import driver

AWAY = frozenset({"08", "25", "40", "53", "55", "57", "58", "72", "F0", "HV", "XX"})
"""Classes of SQLSTATEs that may be gone when it is tried again."""
FINAL_AMONG = frozenset({"40002", "XX001", "XX002"})
"""States of these classes that will not: a constraint, and data that is damaged."""

_REFUSED_LOGIN = re.compile(
    r"authentication failed"
    r"|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r'|role ".*" does not exist|role ".*" is not permitted to log in'
    r'|database ".*" does not exist|permission denied for database'
    r"|no password supplied"
    r"|unrecognized configuration parameter|invalid value for parameter"
    r'|connection is bad: invalid|invalid \w+ value: "'
    r"|server does not support SSL, but SSL was required"
    r"|certificate verify failed|certificate file .* does not exist"
)


def is_final(error: Exception) -> bool:
    """Whether no retry heals an error of the driver."""
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state in FINAL_AMONG or state[:2] not in AWAY
    psycopg = driver()
    kinds = (
        psycopg.DataError,
        psycopg.IntegrityError,
        psycopg.ProgrammingError,
        psycopg.NotSupportedError,
    )
    return isinstance(error, kinds)


def is_refused_login(error: Exception) -> bool:
    """Whether no retry heals an attempt to connect. One server that refuses is enough."""
    return is_final(error) or _REFUSED_LOGIN.search(str(error)) is not None


def message(error: Exception) -> str:
    """What the server says, in one line."""
    diagnosis = getattr(error, "diag", None)
    detail = diagnosis.message_detail if diagnosis is not None else None
    text = " ".join(str(error).split())
    return f"{text} ({detail})" if detail and detail not in text else text
