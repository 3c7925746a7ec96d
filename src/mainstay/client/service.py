"""Requests to the REST service of a job, and its errors as those that they were there."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mainstay import errors
from mainstay.client.address import Address
from mainstay.errors import MainstayError, QueryError, UnreachableError

API = "/api/v1"
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PATIENCE_S = 30.0
SHORTEST_S, LONGEST_S = 0.001, 300.0
"""How long a job may be asked to wait with its answer."""
MARGIN_S = 15.0
"""How much longer than the job itself its answer is waited for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. The names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def document(self) -> Any:
        return json.loads(self.body)


class Service:
    """One job. A connection for each request, so any thread may ask."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def get(self, path: str, timeout_s: float = PATIENCE_S) -> Any:
        """The document of a route."""
        return self._asked("GET", path, None, JSON, timeout_s).document()

    def post(
        self, path: str, body: Mapping[str, Any], timeout_s: float = PATIENCE_S, accept: str = JSON
    ) -> Reply:
        """Have something done, or asked; the job is given ``timeout_s`` for it."""
        timeout_s = min(max(timeout_s, SHORTEST_S), LONGEST_S)
        told = {"timeout_s": timeout_s, **body}
        return self._asked("POST", path, told, accept, timeout_s + MARGIN_S)

    def _asked(self, method: str, path: str, body: Any, accept: str, timeout_s: float) -> Reply:
        at = self.address
        cls = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        connection = cls(at.host, at.port, timeout=timeout_s)
        headers = {"Authorization": f"Bearer {at.token}", "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = JSON
        try:
            connection.request(method, f"{at.path}{API}{path}", data, headers)
            found = connection.getresponse()
            told = {name.lower(): value for name, value in found.headers.items()}
            reply = Reply(found.status, told, found.read())
        except TimeoutError as error:
            raise UnreachableError(
                f"{at} has not answered within {timeout_s:g} s. Ask for less or with a longer "
                "timeout, or ask again; what the job has committed can be asked by its snapshot "
                "directory, too."
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(
                f"nothing answers at {at}: {error or type(error).__name__}. The job has ended, or "
                "is reached elsewhere; what it has committed can be asked by its snapshot "
                "directory."
            ) from error
        finally:
            connection.close()
        if reply.status >= 300:
            self._raise(reply)
        return reply

    def _raise(self, reply: Reply) -> NoReturn:
        try:
            document = reply.document()
            text, name = str(document["error"]), str(document.get("type", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnreachableError(
                f"{self.address} answers with {reply.status}, and not as a job does. See whether "
                "the address is that of job.url."
            ) from None
        if reply.status in (401, 403):
            raise QueryError(text)
        raise error_named(name)(text)


def error_named(name: str) -> type[Exception]:
    """The class of an error that was raised in the job's process."""
    found = vars(errors).get(name)
    if not (isinstance(found, type) and issubclass(found, MainstayError)):
        return TimeoutError if name == "TimeoutError" else MainstayError
    own = (cls for cls in found.__mro__ if cls.__module__ == errors.__name__)
    # One that is made of more than a text is told by it alone.
    return MainstayError if any("__init__" in vars(cls) for cls in own) else found
