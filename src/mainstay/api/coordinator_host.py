"""Where executors reach the coordinator, as who runs a job may say it."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from mainstay.errors import GraphError

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")


def checked_host(host: Any) -> str | None:
    """A name or an address, without a port: the coordinator takes a free one."""
    if host is None:
        return None
    if isinstance(host, str):
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if _is_address(bare) or (_NAME.fullmatch(host) and not _is_like_address(host)):
            return bare
    raise GraphError(
        f"coordinator_host={host!r} must be a name or an address of this machine, as executors "
        "know it, such as 'driver.example.org' or '10.0.0.5', without a scheme or a port: the "
        "coordinator listens on a free one."
    )


def _is_address(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_like_address(host: str) -> bool:
    """Numbers and dots alone are an address, and here one that is wrong."""
    return all(part.isdigit() for part in host.rstrip(".").split("."))
