"""What sinks and state in PostgreSQL share about prepared transactions."""

from __future__ import annotations

from typing import Any

SETTING = "SELECT current_setting('max_prepared_transactions')::int"


def refusal(server: Any, setting: int, needed: int, who: str, each: str, instead: str) -> str:
    """What is said of a server that allows fewer than are needed, and what to do about it."""
    return (
        f"{server} allows {setting} prepared transactions, and {who} needs {needed}: {each}. Set "
        f"max_prepared_transactions = {max(64, 2 * needed)} in postgresql.conf and restart the "
        f"server; or use {instead}."
    )
