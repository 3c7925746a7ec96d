"""What is noted of a job: who runs it, where it is reached, where its snapshots are."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mainstay.registry.processes import is_alive, start_mark

FORMAT = 1


class UnreadableError(ValueError):
    """A file of the registry is not one of ours, or of a later version."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One job that was started. ``url`` is None for a job that serves no page."""

    name: str
    pid: int
    process: str | None
    host: str
    url: str | None
    token: str | None = field(repr=False)
    place: str
    started_at: float

    @staticmethod
    def of_this_process(name: str, page: str | None, place: str, started_at: float) -> Entry:
        """``page`` is the address with the token in it."""
        url, _, token = (page or "").partition("#token=")
        pid = os.getpid()
        own = (name, pid, start_mark(pid), socket.gethostname())
        return Entry(*own, url or None, token or None, place, started_at)

    @property
    def is_here(self) -> bool:
        """Whether its process is one of this machine: of others a pid says nothing."""
        return self.host == socket.gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended without a word: it was killed, or the machine went down."""
        return self.is_here and not is_alive(self.pid, self.process)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @staticmethod
    def from_json(text: str) -> Entry:
        try:
            found: Any = json.loads(text)
            is_known = found.pop("format") == FORMAT
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise UnreadableError("it is no entry of a job") from error
        if not is_known:
            raise UnreadableError("another version of Mainstay has written it")
        if set(found) != {each.name for each in fields(Entry)}:
            raise UnreadableError("it is no entry of a job")
        return Entry(**found)
