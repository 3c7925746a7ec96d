"""The server: a port, and a thread of its own that answers there while its job has a handle."""

from __future__ import annotations

import atexit
import secrets
import socket
import threading
import weakref

import uvicorn
from starlette.types import ASGIApp

from mainstay.api.ui import Ui
from mainstay.drive.handle import JobHandle
from mainstay.errors import GraphError
from mainstay.registry.registering import Registration, register
from mainstay.serve.app import application
from mainstay.serve.events import Events
from mainstay.serve.running import RunningView
from mainstay.serve.security import WILDCARDS
from mainstay.serve.under_way import UnderWay
from mainstay.serve.view import JobView

BACKLOG = 64
CLOSE_S = 2
MOST_CONNECTIONS = 128


class Server:
    """Takes its port at once, so that a port in use is an error before anything is started."""

    def __init__(self, ui: Ui) -> None:
        self._ui = ui
        self._token = ui.token or secrets.token_urlsafe(24)
        self._socket = _bound(ui)
        self.port: int = self._socket.getsockname()[1]
        self._thread: threading.Thread | None = None
        self._uvicorn: uvicorn.Server | None = None
        self._under_way: UnderWay | None = None
        self._registration: Registration | None = None

    @property
    def url(self) -> str:
        """The address of the page, with the token where no server and no log sees it."""
        host = self._ui.host
        if host in WILDCARDS:
            host = self._ui.hosts[0] if self._ui.hosts else "127.0.0.1"
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/#token={self._token}"

    def serve(self, job: JobHandle, place: str) -> None:
        """Serve a job of this process, until its handle is dropped or the process ends."""
        self.show(RunningView(job, place))
        job.server = self
        self._registration = register(job.name, self.url, place, job.insight.started_at)
        weakref.finalize(job, self.close).atexit = False

    def show(self, view: JobView) -> None:
        """Answer from a view, on a thread that the process does not wait for."""
        events = Events(view)
        app = application(view, events, self._token, self._ui.host, self._ui.hosts)
        self._under_way = UnderWay(app)
        self._uvicorn = _Uvicorn(_config(self._under_way), events)
        self._thread = threading.Thread(
            target=self._uvicorn.run,
            kwargs={"sockets": [self._socket]},
            name=f"mainstay-ui-{self.port}",
            daemon=True,
        )
        self._thread.start()
        atexit.register(self._end_with_program)

    def _end_with_program(self) -> None:
        """Who has stopped the job is told so, even if the program ends with it."""
        if self._under_way:
            self.close()

    def close(self) -> None:
        """End it; who listens is cut off."""
        atexit.unregister(self._end_with_program)
        if self._registration is not None:
            self._registration.end()
        if self._uvicorn is None or self._thread is None:
            self._socket.close()
            return
        self._uvicorn.should_exit = True
        if self._thread is not threading.current_thread():
            self._thread.join(2 * CLOSE_S)

    def wait(self) -> None:
        """Until it is closed."""
        if self._thread is not None:
            self._thread.join()


class _Uvicorn(uvicorn.Server):
    """Ends the streams of events first, because it waits for all requests to end."""

    def __init__(self, config: uvicorn.Config, events: Events) -> None:
        super().__init__(config)
        self._events = events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._events.close()
        await super().shutdown(sockets)


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        # The log is the program's own; requests are not written to it.
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        loop="asyncio",
        http="h11",
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=CLOSE_S,
    )


def _bound(ui: Ui) -> socket.socket:
    family = socket.AF_INET6 if ":" in ui.host else socket.AF_INET
    # By its protocol asyncio knows that small answers are not to be held back.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((ui.host, ui.port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise GraphError(
            f"Ui(host={ui.host!r}, port={ui.port}) cannot be used: {error.strerror or error}. Give "
            "another port, 0 for any that is free, or an address of this machine."
        ) from error
    return bound
