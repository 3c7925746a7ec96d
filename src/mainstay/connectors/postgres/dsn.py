"""Connection strings of PostgreSQL: what is wrong with one, and what in it is secret.

libpq quotes what it does not understand, and that may be half of a password. A password with "@"
or "/" in it makes a host, a port or a database of its own rest. So its words are shown without
what they quote, and such a string is refused before anybody connects with it.
"""

from __future__ import annotations

import re

from mainstay.connectors.postgres.driver import driver
from mainstay.masking import MASK, secrets_of

# To the last one: a password may have quotes in it.
_QUOTED = re.compile(r'["«»“”„].*["«»“”„]|["«»“”„].*', re.S)
_PORTS = re.compile(r"\d*(,\d*)*")
_ESCAPE = 'percent-encode "@", ":", "/" and "%" in the user and the password, as in %40 for "@"'


def problem_with(dsn: str) -> str | None:
    """Why a connection string cannot be used, without any part of it; None if it can."""
    psycopg = driver()
    try:
        given = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.Error as error:
        told = " ".join(str(error).split())
        return _QUOTED.sub(f'"{MASK}"', told)
    if "://" in dsn and _is_torn(dsn):
        return f"its password seems to have a character that ends it: {_ESCAPE}"
    if not _PORTS.fullmatch(str(given.get("port") or "")):
        return f"its port is no number; if there is a password in it, {_ESCAPE}"
    return None


def _is_torn(dsn: str) -> bool:
    """Whether an "@" stands in the host or the path of a URI."""
    address = dsn.partition("://")[2].partition("?")[0]
    login, _, rest = address.partition("@")
    return "@" in rest or ("/" in login and bool(rest))


def secrets_in(dsn: str) -> list[str]:
    """The parts of a connection string that nobody may see."""
    return secrets_of(driver().conninfo.conninfo_to_dict(dsn))
