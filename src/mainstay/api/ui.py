"""The page and the REST service of a job, as its author asks for them.

::

    env = Environment(snapshots=Snapshots("./snapshots"), ui=True)
    print(env.start("totals").url)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mainstay.errors import GraphError
from mainstay.own_frames import with_settings

SHORTEST_TOKEN = 16


@with_settings
@dataclass(frozen=True, slots=True)
class Ui:
    """Where a job serves its page, its REST routes and its metrics.

    ``port`` 0 is any that is free. ``token`` is what requests must carry; a random one where none
    is given. ``hosts`` are further names by which it is reached, such as that of a proxy.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)
    hosts: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host.strip():
            raise GraphError(f'Ui(host={self.host!r}) must be an address, as in host="127.0.0.1".')
        if isinstance(self.port, bool) or not isinstance(self.port, int):
            raise GraphError(
                f"Ui(port={self.port!r}) must be a number; 0 is any port that is free."
            )
        if not 0 <= self.port <= 65535:
            raise GraphError(f"Ui(port={self.port}) must lie between 0 and 65535.")
        if isinstance(self.hosts, str) or not all(isinstance(each, str) for each in self.hosts):
            raise GraphError(f'Ui(hosts={self.hosts!r}) must be a list, as in hosts=["jobs.lan"].')
        object.__setattr__(self, "hosts", tuple(self.hosts))
        self._check_token()

    def _check_token(self) -> None:
        token = self.token
        if token is None:
            return
        is_text = isinstance(token, str) and token.isascii() and token.isprintable()
        if not is_text or " " in token or len(token) < SHORTEST_TOKEN:
            raise GraphError(
                f"Ui(token=...) must have at least {SHORTEST_TOKEN} letters, digits or signs, "
                "without spaces. Leave it out for a random one."
            )


def ui_of(given: Any) -> Ui | None:
    """What ``Environment(ui=...)`` was given: settings, or whether there is to be a page at all."""
    if given is None or isinstance(given, Ui):
        return given
    if isinstance(given, bool):
        return Ui() if given else None
    raise GraphError(f"ui={given!r} must be True, a Ui or None, as in ui=Ui(port=8080).")


def opened(ui: Ui) -> Any:
    """A server with its port, which serves a job as soon as there is one."""
    try:
        from mainstay.serve.server import Server
    except ModuleNotFoundError as error:
        raise GraphError(
            f"ui= needs {error.name}, which is not installed. Install it with: "
            "pip install 'mainstay[ui]'"
        ) from error
    return Server(ui)
