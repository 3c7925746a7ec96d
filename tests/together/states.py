"""All rows of a state, read from a snapshot directory or a savepoint without the job."""

from __future__ import annotations

from typing import Any

import mainstay as ms


def state_of(place: str, state: str) -> dict[Any, Any]:
    """By key. State in PostgreSQL is read by a process that has made ``ms.Postgres``."""
    return dict(ms.connect(place).query(state).values())
