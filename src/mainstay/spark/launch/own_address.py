"""The address of this machine, as seen from another one."""

from __future__ import annotations

import socket

from mainstay.errors import SparkSetupError

_ANY_PORT = 15002
"""The way to a host does not depend on the port; nothing is sent to it."""


def own_address(towards: str) -> str:
    """The address of the interface from which packets go to a host."""
    try:
        found = socket.getaddrinfo(towards, _ANY_PORT, type=socket.SOCK_DGRAM)
        # A name such as localhost often has an address of each family, and not all hosts have both.
        family, kind, protocol, _, target = min(found, key=lambda each: each[0] != socket.AF_INET)
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise SparkSetupError(
            f"the address under which executors reach this process cannot be found: there is no "
            f"way to {towards!r} ({error}). Say it: Environment(coordinator_host=...)."
        ) from error
