"""Addresses: where a process listens, and whether two processes can meet on a Unix socket."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from pathlib import Path

import zmq

LOOPBACK = "127.0.0.1"


def listen(listening: zmq.Socket[bytes], host: str) -> str:
    """Bind a socket to a free port; the address under which others reach it at ``host``.

    ``host`` may be a name, or an address that is only translated to one of this machine, so
    anything but loopback is bound on all interfaces.
    """
    listening.ipv6 = is_v6(host)
    shown = f"[{host}]" if ":" in host else host
    port = listening.bind_to_random_port(f"tcp://{host if host == LOOPBACK else '*'}")
    return f"tcp://{shown}:{port}"


def reach(connecting: zmq.Socket[bytes], address: str) -> None:
    """Connect a socket to an address that ``listen`` or ``local_address`` gave elsewhere."""
    kind, _, place = address.partition("://")
    connecting.ipv6 = kind == "tcp" and is_v6(place.rpartition(":")[0].strip("[]"))
    connecting.connect(address)


def is_v6(host: str) -> bool:
    """Whether a host can be reached by IPv6 only: ZeroMQ has to be told."""
    if ":" in host:
        return True
    try:
        found = {family for family, *_ in socket.getaddrinfo(host, None)}
    except socket.gaierror:
        return False
    return socket.AF_INET6 in found and socket.AF_INET not in found


def has_local_sockets() -> bool:
    """Whether there are Unix sockets without a file, which a killed process leaves nothing of."""
    return sys.platform == "linux"


def local_address() -> str:
    return f"ipc://@mainstay-{uuid.uuid4().hex}"


def place() -> str:
    """Equal for processes that reach each other's Unix sockets, and only for those."""
    network = Path("/proc/self/ns/net")
    boot = Path("/proc/sys/kernel/random/boot_id")
    if has_local_sockets() and network.exists() and boot.exists():
        return f"{boot.read_text().strip()}/{os.readlink(network)}"
    return f"{socket.gethostname()}/{uuid.uuid4().hex}"
