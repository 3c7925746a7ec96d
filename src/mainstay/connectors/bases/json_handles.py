"""Handles of sinks as JSON with a version, since another Mainstay may have to read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mainstay.errors import SinkError


def write_handle(version: int, content: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": version, **content}).encode()


def read_handle(data: bytes, version: int, sink: str) -> dict[str, Any]:
    """What ``write_handle`` was given; ``sink`` names the sink in errors."""
    content: dict[str, Any] = json.loads(data)
    check_version(content.pop("version"), version, sink)
    return content


def check_version(found: Any, known: int, sink: str) -> None:
    """Refuse a handle that another version of Mainstay has written."""
    if found != known:
        raise SinkError(
            f"the handle of a {sink} sink has version {found}; this Mainstay knows version "
            f"{known}. Use the Mainstay that wrote it, or a newer one."
        )
