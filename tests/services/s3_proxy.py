"""A proxy in front of an S3 server: it counts what is asked, and lets requests go wrong.

::

    proxy = S3Proxy(server.port)
    proxy.inject(LOST, kind=CREATE, key="log/")          # the next such request
    proxy.inject(BUSY, times=None, chance=0.05)          # one request in twenty, for good
    open_storage("s3://bucket/job")                      # with proxy.environment set
    proxy.count(kind=PUT, key="/state/")

Chance comes from a seed: the draws are the same in every run, the order of requests from several
threads may not be. ``bytes_per_s`` is how much goes through it in both directions together.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.services.s3 import Answering, Listening, error

LOST = "the request is done, and its answer lost"
DROPPED = "the connection breaks before anything is done"
CONFLICT = "409 ConditionalRequestConflict"
BUSY = "503 SlowDown"
THROTTLED = "429 TooManyRequests"
SLOW = "the answer is slow"

PUT, CREATE, GET, HEAD = "PUT", "CREATE", "GET", "HEAD"
LIST, DELETE, UPLOAD = "LIST", "DELETE", "UPLOAD"
"""CREATE is a PUT with a condition, UPLOAD any request of an upload in parts."""

_REFUSALS = {
    CONFLICT: (409, "ConditionalRequestConflict"),
    BUSY: (503, "SlowDown"),
    THROTTLED: (429, "TooManyRequests"),
}
_CHUNK_BYTES = 256 << 10
_NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "date", "server"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in; ``size_bytes`` is what was sent of an object, to or fro."""

    kind: str
    key: str
    size_bytes: int
    fault: str | None


@dataclass(slots=True)
class _Rule:
    fault: str
    kind: str | None
    key: str
    times: int | None
    chance: float
    delay_s: float


@dataclass(slots=True)
class _Pace:
    """Lets so many bytes a second through, whichever threads bring them."""

    bytes_per_s: float | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    free_at: float = 0.0

    def wait(self, size_bytes: int) -> None:
        if self.bytes_per_s is None:
            return
        with self.lock:
            begins = max(time.monotonic(), self.free_at)
            self.free_at = begins + size_bytes / self.bytes_per_s
            ends = self.free_at
        time.sleep(max(0.0, ends - time.monotonic()))


class S3Proxy(Listening):
    """Passes requests on to a server on a port of this machine."""

    def __init__(self, upstream: int, *, seed: int = 0, bytes_per_s: float | None = None) -> None:
        self.upstream = upstream
        self.requests: list[Request] = []
        self.pace = _Pace(bytes_per_s)
        self._rules: list[_Rule] = []
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        outer = self

        class Handler(_Handler):
            proxy = outer

        super().__init__(Handler)

    def inject(
        self,
        fault: str,
        *,
        kind: str | None = None,
        key: str = "",
        times: int | None = 1,
        chance: float = 1.0,
        delay_s: float = 0.0,
    ) -> None:
        """Have requests of a kind, for keys with a text in them, go wrong: so many, or all."""
        with self._lock:
            self._rules.append(_Rule(fault, kind, key, times, chance, delay_s))

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._rules.clear()

    def forget(self) -> None:
        """Count from nothing again."""
        with self._lock:
            self.requests.clear()

    def seen(self, *, kind: str | None = None, key: str = "") -> list[Request]:
        with self._lock:
            return [each for each in self.requests if kind in (None, each.kind) and key in each.key]

    def count(self, *, kind: str | None = None, key: str = "") -> int:
        return len(self.seen(kind=kind, key=key))

    def size_bytes(self, *, kind: str, key: str = "") -> int:
        """What went through of objects, in requests of a kind."""
        return sum(each.size_bytes for each in self.seen(kind=kind, key=key))

    def counts(self, below: str) -> Counter[tuple[str, str]]:
        """How many requests there were by kind and by folder below a prefix."""
        return Counter(
            (each.kind, each.key.removeprefix(below).partition("/")[0]) for each in self.seen()
        )

    def note(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)

    def rule_for(self, kind: str, key: str) -> _Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.kind in (None, kind) and rule.key in key and rule.times != 0:
                    if rule.chance < 1.0 and self._random.random() >= rule.chance:
                        continue
                    if rule.times is not None:
                        rule.times -= 1
                    return rule
        return None


class _Handler(Answering):
    proxy: S3Proxy
    _server_connection: http.client.HTTPConnection | None = None

    def _handle(self) -> None:
        data = self.body()
        self.proxy.pace.wait(len(data))
        kind, key = self._kind(), self.key or self.query.get("prefix", "")
        rule = self.proxy.rule_for(kind, key)
        fault = None if rule is None else rule.fault
        if fault in _REFUSALS or fault == DROPPED:
            self.proxy.note(Request(kind, key, 0, fault))
            self._refuse(fault)
            return
        if rule is not None and fault == SLOW:
            time.sleep(rule.delay_s)
        code, headers, found = self._passed_on(data)
        size = len(data) if kind in (PUT, CREATE, UPLOAD) else len(found)
        self.proxy.note(Request(kind, key, size if kind != LIST else 0, fault))
        if fault == LOST:
            self.close_connection = True
            return
        self._send(code, headers, found)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _handle  # noqa: N815 - as the base asks

    def _refuse(self, fault: Any) -> None:
        if fault == DROPPED:
            self.close_connection = True
        else:
            code, name = _REFUSALS[fault]
            self.answer(code, error(name))

    def _kind(self) -> str:
        query = self.query
        if "uploads" in query or "uploadId" in query:
            return UPLOAD
        if "list-type" in query:
            return LIST
        if self.command == "PUT" and self.is_conditional:
            return CREATE
        return DELETE if self.command == "POST" else self.command

    def _passed_on(self, data: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        if self._server_connection is None:
            upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream)
            self._server_connection = upstream
        connection = self._server_connection
        connection.request(self.command, self.path, data or None, dict(self.headers.items()))
        response = connection.getresponse()
        return response.status, response.getheaders(), response.read()

    def _send(self, code: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(code)
        for name, value in headers:
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        length = dict(headers).get("Content-Length", "0") if self.command == "HEAD" else len(data)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        for start in range(0, len(data), _CHUNK_BYTES):
            chunk = memoryview(data)[start : start + _CHUNK_BYTES]
            self.proxy.pace.wait(len(chunk))
            self.wfile.write(chunk)

    def finish(self) -> None:
        if self._server_connection is not None:
            self._server_connection.close()
        super().finish()
