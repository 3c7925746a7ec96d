"""Who is answered: a token, the names the service is known by, and bounds on what is sent.

It stands before everything else, so that no route can be forgotten. A page of another site cannot
ask either: it does not know the token, and where it has made its own name point here, the name in
the request tells (*DNS rebinding*).
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY_BYTES = 1 << 20
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Answered without a token, and by any name: who asks is a machine that knows an address alone."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
WILDCARDS = ("0.0.0.0", "::", "")
_HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Names:
    """The names by which the service may be asked for."""

    def __init__(self, bound: str, told: Sequence[str]) -> None:
        self._names = {name.lower().rstrip(".") for name in (bound, *told) if name not in WILDCARDS}
        self._is_wildcard = bound in WILDCARDS
        if self._is_wildcard or bound in LOOPBACK:
            self._names.update(LOOPBACK)

    def allow(self, host: str) -> bool:
        """Whether a ``Host`` header is one of them, whatever its port.

        Where every interface is listened on, any address is: no other site can have it for a name.
        """
        name = _without_port(host).lower().rstrip(".")
        return name in self._names or (self._is_wildcard and _is_address(name))


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Refuses what must not be answered, and adds the headers that browsers keep to.

    ``open_prefix`` is where the files of the page are, which hold nothing of the job.
    """

    def __init__(self, app: ASGIApp, token: str, names: Names, open_prefix: str) -> None:
        self._app = app
        self._token = token.encode()
        self._names = names
        self._open_prefix = open_prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope["path"], headers)
        if refused is None:
            body = await _body(headers, receive)
            if body is not None:
                await self._app(scope, _replayed(body, receive), _with_headers(send))
                return
            refused = (413, f"the body is larger than {MOST_BODY_BYTES:,} bytes. Send less.")
        await _answer(_with_headers(send), *refused)

    def _refused(self, path: str, headers: Headers) -> tuple[int, str] | None:
        if path in OPEN_PATHS:
            return None
        if not self._names.allow(headers.get("host", "")):
            return 403, (
                "this service is not known by the name in the request. Use the address that "
                "job.url shows, or add the name to Ui(hosts=[...])."
            )
        if path == "/" or path.startswith(self._open_prefix):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._token)
        if scheme.lower() != "bearer" or not is_right:
            what = "the token is not that of this job" if given else "a token is needed"
            return 401, (
                f"{what}. Send the header Authorization: Bearer TOKEN; the token is "
                "what job.url has behind #token=."
            )
        return None


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """The body; None where it is too large, which is noticed before all of it has come."""
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MOST_BODY_BYTES:
        return None
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, and after it what comes: that the client has gone."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
        await send(message)

    return with_headers


async def _answer(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error, "kind": "refused", "type": ""}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
