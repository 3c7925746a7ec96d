"""Takes the keys off every socket, where it is imported before the transport.

A test that overhears nothing has to show that it would have heard something.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mainstay.transport import hub, keys, links

CHANGE = f"import {__name__}\n"
"""What the program of a worker begins with, to do the same."""


def _leave_plain(*_: Any) -> None:
    """In the place of what would set the keys of a socket."""


keys.guard = hub.guard = links.guard = _leave_plain
keys.present = links.present = _leave_plain

_hear = hub.Hub._hear


def _believe(self: hub.Hub, sender: Any, frames: list[bytes]) -> Any:
    """Whoever says that it is of an attempt is taken at its word."""

    def get(_: str) -> str:
        _, attempt, _ = hub._IDENTITY.unpack(sender.bytes)
        return self._attempts[attempt].worker.public.decode()

    return _hear(self, SimpleNamespace(bytes=sender.bytes, get=get), frames)  # type: ignore[arg-type]


hub.Hub._hear = _believe  # type: ignore[method-assign]
