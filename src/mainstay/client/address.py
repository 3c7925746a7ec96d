"""The address of a job: as ``job.url`` gives it, with the token behind ``#``."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from mainstay.errors import GraphError

MARK = "token="


@dataclass(frozen=True, slots=True)
class Address:
    """Where a job is asked, and what shows that one may."""

    scheme: str
    host: str
    port: int
    path: str
    token: str = field(repr=False)

    def __str__(self) -> str:
        """Without the token: this is shown and logged."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @staticmethod
    def of(url: str, token: str | None = None) -> Address:
        """``token`` is taken where the address has none."""
        parts = urlsplit(url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            port = 0
        if parts.scheme not in ("http", "https") or not parts.hostname or not port:
            raise GraphError(
                f"{url.partition('#')[0]!r} is no address of a job. Give what job.url shows, as in "
                "'http://127.0.0.1:40123/#token=...'."
            )
        found = parts.fragment.removeprefix(MARK) if parts.fragment.startswith(MARK) else token
        if not found:
            raise GraphError(
                f"the address {url.partition('#')[0]!r} has no token. Give what job.url shows, "
                "which ends in '/#token=...'."
            )
        return Address(parts.scheme, parts.hostname, port, parts.path.rstrip("/"), found)


def is_address(text: object) -> bool:
    """Whether this is an address of a job and not a place of snapshots."""
    return isinstance(text, str) and text.lower().startswith(("http://", "https://"))
