"""The driver of PostgreSQL, which is installed by an extra."""

from __future__ import annotations

from typing import Any

from mainstay.errors import GraphError


def driver() -> Any:
    """The module ``psycopg``."""
    try:
        import psycopg
    except ImportError as error:
        raise GraphError(
            f"PostgreSQL needs psycopg, which cannot be imported ({error}). Install it with "
            "pip install 'mainstay[postgres]'."
        ) from error
    return psycopg
