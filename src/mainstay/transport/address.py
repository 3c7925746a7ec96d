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
    is_v6 = ":" in host
    listening.ipv6 = is_v6
    shown = f"[{host}]" if is_v6 else host
    port = listening.bind_to_random_port(f"tcp://{host if host == LOOPBACK else '*'}")
    return f"tcp://{shown}:{port}"


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
