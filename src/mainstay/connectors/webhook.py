"""Rows sent to a web service, with a key by which it can tell a repetition.

::

    stream.sink(Webhook("https://example.com/orders", headers={"Authorization": "…"}), uid="out")

Rows are part of the snapshot until their epoch is complete; then they are posted, some in each
request. A request that fails, or whose outcome nobody knows, is made again with the same body and
the same ``Idempotency-Key``. So every row arrives, and counts once where the service throws away
what it has had before.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pyarrow as pa

from mainstay.connectors.bases.write_ahead import Delivery, WriteAheadSink
from mainstay.connectors.formats.json_rows import json_rows
from mainstay.connectors.formats.soundness import UNWRITABLE
from mainstay.errors import GraphError, SinkError, named
from mainstay.masking import masked, masked_url, secrets_of
from mainstay.own_frames import made_with_own_frames
from mainstay.quantities import seconds
from mainstay.runtime.connector import UnavailableError
from mainstay.spelling import did_you_mean

FORMATS = {"json": "application/json", "jsonl": "application/x-ndjson"}
RETRIED = (408, 429)
"""Answers of a service that may say yes another time, beside all from 500 on."""
SHOWN_BYTES = 500
"""So much of an answer is shown in an error."""
LONGEST_WAIT_S = 3600.0
REMEMBERED = 1000
"""Deliveries whose answers are known here, and that need not be sent again to be confirmed."""

_URL = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

_clock: Callable[[], float] = time.monotonic


@made_with_own_frames
class Webhook(WriteAheadSink):
    """Posts rows as JSON: a list of objects ("json"), or one object to a line ("jsonl").

    An answer from 200 to 299 means that the rows have arrived. After 408, 429, any from 500 on, or
    none within ``timeout``, the request is made again, not before the time that a ``Retry-After``
    asks for. Any other answer says that the service will never take the rows: the attempt fails.
    """

    def __init__(
        self,
        url: str,
        *,
        format: str = "json",
        batch_rows: int = 500,
        headers: Mapping[str, str] | None = None,
        timeout: str | float = "30s",
    ) -> None:
        self.url = url
        self.shown_url = masked_url(url)
        """How the service is called in errors and logs."""
        self.format = format
        self.batch_rows = batch_rows
        self.headers = dict(headers or {})
        self.timeout_s = seconds(timeout, "timeout", positive=True)
        self._check()
        self._sent: dict[str, int] = {}
        """How many requests of a delivery were answered, of the last deliveries."""
        self._closed_until = 0.0

    def _check(self) -> None:
        _check_url(self.url)
        if self.format not in FORMATS:
            raise GraphError(
                f"Webhook(format={self.format!r}) must be one of {', '.join(FORMATS)}."
                f"{did_you_mean(self.format, FORMATS)}"
            )
        is_number = isinstance(self.batch_rows, int) and not isinstance(self.batch_rows, bool)
        if not is_number or self.batch_rows < 1:
            raise GraphError(f"Webhook(batch_rows={self.batch_rows!r}) must be a number above 0.")
        for name, value in self.headers.items():
            _check_header(name, value)

    def deliver(self, delivery: Delivery) -> None:
        if _clock() < self._closed_until:
            wait_s = self._closed_until - _clock()
            raise UnavailableError(
                f"{self.shown_url} asked not to be called for another {wait_s:.0f} s"
            )
        done = self._sent.get(delivery.key, 0)
        with closing(self._connection(urlsplit(self.url))) as connection:
            for number, body in enumerate(self._bodies(delivery)):
                if number >= done:
                    self._post(connection, request_key(delivery, number, body), body)
                    self._sent[delivery.key] = number + 1
        while len(self._sent) > REMEMBERED:
            self._sent.pop(next(iter(self._sent)))

    def _bodies(self, delivery: Delivery) -> Iterator[bytes]:
        for start in range(0, delivery.rows.num_rows, self.batch_rows):
            yield self._body(delivery.rows.slice(start, self.batch_rows))

    def _body(self, table: pa.Table) -> bytes:
        try:
            rows = json_rows(table)
            text = f"[{','.join(rows)}]" if self.format == "json" else "\n".join([*rows, ""])
            return text.encode()
        except UNWRITABLE as error:
            raise SinkError(
                f"rows cannot be sent to {self.shown_url}: {named(error)}. Give "
                "the sink rows that JSON has a spelling for."
            ) from error

    def _connection(self, parts: SplitResult) -> http.client.HTTPConnection:
        assert parts.hostname is not None
        is_plain = parts.scheme == "http"
        kind = http.client.HTTPConnection if is_plain else http.client.HTTPSConnection
        return kind(parts.hostname, parts.port, timeout=self.timeout_s)

    def _post(self, connection: http.client.HTTPConnection, key: str, body: bytes) -> None:
        parts = urlsplit(self.url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        headers = {"Content-Type": FORMATS[self.format], **self.headers, "Idempotency-Key": key}
        try:
            connection.request("POST", target, body, headers)
            response = connection.getresponse()
            answer = response.read()
        except http.client.HTTPException as error:
            raise UnavailableError(f"{self.shown_url}: {named(error)}") from error
        if not 200 <= response.status < 300:
            raise self._refused(response, answer)

    def _refused(self, response: http.client.HTTPResponse, answer: bytes) -> Exception:
        text = answer[:SHOWN_BYTES].decode(errors="replace")
        shown = masked(text, secrets_of(self.headers))
        told = f"{self.shown_url} answered {response.status} {response.reason}: {shown!r}"
        if response.status in RETRIED or response.status >= 500:
            self._closed_until = _clock() + _wait_s(response.headers.get("Retry-After"))
            return UnavailableError(told)
        return SinkError(
            f"{told}. It will not take these rows however often they are sent: correct the url=, "
            "headers= or format= of the Webhook, or the service."
        )

    def __getstate__(self) -> dict[str, Any]:
        """What is under way stays with the process that knows of it."""
        return {**self.__dict__, "_sent": {}, "_closed_until": 0.0}


def _parts_of(url: Any) -> SplitResult | None:
    """The parts of a URL that can be called; None for all else."""
    if not isinstance(url, str) or not _URL.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        is_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a host that is none
        return None
    return parts if is_place and parts.scheme in ("http", "https") else None


def _check_url(url: Any) -> None:
    parts = _parts_of(url)
    if parts is None:
        raise GraphError(
            f"Webhook({masked_url(url)!r}): give the http or https URL of a service, as in "
            '"https://example.com/orders", without spaces, and with other signs than those of '
            "ASCII written as %XX."
        )
    if parts.username is not None:
        raise GraphError(
            f"Webhook of {parts.hostname}: do not put a password in the URL, which is shown in "
            'errors and logs; use headers={"Authorization": "..."}.'
        )


def _check_header(name: Any, value: Any) -> None:
    """Refuse what HTTP cannot carry. The value may be a secret, and is not shown."""
    if not isinstance(name, str) or not isinstance(value, str):
        raise GraphError(f"Webhook(headers=...): {name!r} and its value must be texts.")
    if not _HEADER_NAME.fullmatch(name):
        raise GraphError(f"Webhook(headers=...): {name!r} is no name of a header.")
    if not _HEADER_VALUE.fullmatch(value):
        raise GraphError(
            f"Webhook(headers=...): the value of {name!r} has a line end or another sign that no "
            "header can have. Where it was read from a file, use .strip()."
        )


def request_key(delivery: Delivery, number: int, body: bytes) -> str:
    """A key that no other request has.

    The digest keeps apart jobs of one name with histories of their own, which count epochs alike.
    """
    return f"{delivery.key}_{number}_{hashlib.sha256(body).hexdigest()[:12]}"


def _wait_s(retry_after: str | None) -> float:
    """The seconds that a service asks for; a date, or nonsense, is as good as nothing."""
    text = (retry_after or "").strip()
    return min(float(text), LONGEST_WAIT_S) if text.isdecimal() else 0.0
