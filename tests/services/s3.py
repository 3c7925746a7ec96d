"""An S3 server for tests: objects in a dictionary under one lock, exact whoever asks at once.

It speaks as much of the protocol as the storage and the connectors use: PUT with
``If-None-Match``, GET with ranges, HEAD, DELETE, deletes of many keys, listings in pages and
uploads in parts. It is up in a millisecond and needs no package. What goes wrong between it and its
clients is up to :class:`tests.services.s3_proxy.S3Proxy`::

    server = S3Server()
    open_storage("s3://bucket/job")          # with server.environment set
    server.close()

``S3Server(locks=False)`` is a wrong one, of which there are some: it looks whether a key is free
and stores, but not in one step, so that of two writers who come together both are told that they
won.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

PAGE_KEYS = 1000
LOOKING_S = 2.0
"""How long a wrong server gives a second writer to look before it stores what the first brought."""


def environment_of(port: int) -> dict[str, str]:
    """What a client needs to reach a server on a port of this machine."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
    }


class Listening:
    """Answers requests on a port of this machine, a thread for each connection."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.port)

    def close(self) -> None:
        """Hang up on all, and wait for the threads."""
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or hung up on, is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class S3Server(Listening):
    """One bucket of any name: keys are told apart by what follows it."""

    def __init__(self, *, locks: bool = True, page_keys: int = PAGE_KEYS) -> None:
        self.objects: dict[str, bytes] = {}
        self.page_keys = page_keys
        self._locks = locks
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._looked = threading.Condition(self._lock)
        self._lookers: Counter[str] = Counter()
        outer = self

        class Handler(_Handler):
            store = outer

        super().__init__(Handler)

    def put(self, key: str, data: bytes, *, only_if_absent: bool) -> bool:
        with self._lock:
            if only_if_absent and key in self.objects:
                return False
            if only_if_absent and not self._locks:
                self._let_another_look(key)
            self.objects[key] = data
            return True

    def _let_another_look(self, key: str) -> None:
        """What a missing lock comes to: somebody else finds the key free before this one stores."""
        self._lookers[key] += 1
        self._looked.notify_all()
        self._looked.wait_for(lambda: self._lookers[key] > 1, LOOKING_S)

    def get(self, key: str) -> bytes | None:
        with self._lock:
            return self.objects.get(key)

    def delete(self, keys: list[str]) -> None:
        with self._lock:
            for key in keys:
                self.objects.pop(key, None)

    def page(self, prefix: str, after: str) -> tuple[list[tuple[str, int]], bool]:
        """Keys and sizes behind a key, and whether there are more."""
        with self._lock:
            names = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
            first = names[: self.page_keys]
            return [(key, len(self.objects[key])) for key in first], len(names) > len(first)

    def begin_upload(self) -> str:
        with self._lock:
            id = f"upload-{next(self._numbers)}"
            self._uploads[id] = {}
            return id

    def put_part(self, id: str, number: int, data: bytes) -> None:
        with self._lock:
            self._uploads[id][number] = data

    def end_upload(self, id: str) -> bytes:
        with self._lock:
            return b"".join(data for _, data in sorted(self._uploads.pop(id).items()))


class Answering(BaseHTTPRequestHandler):
    """A handler of requests for keys of a bucket."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    @property
    def key(self) -> str:
        """The path without the bucket."""
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    @property
    def query(self) -> dict[str, str]:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[0] for name, values in found.items()}

    @property
    def is_conditional(self) -> bool:
        return self.headers.get("If-None-Match") == "*"

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, code: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class _Handler(Answering):
    store: S3Server

    def do_PUT(self) -> None:
        data = self.body()
        if "partNumber" in self.query:
            self.store.put_part(self.query["uploadId"], int(self.query["partNumber"]), data)
            self.answer(200, ETag='"1"')
        elif self.store.put(self.key, data, only_if_absent=self.is_conditional):
            self.answer(200, ETag='"1"')
        else:
            self.answer(412, error("PreconditionFailed"))

    def do_GET(self) -> None:
        if "list-type" in self.query:
            self._list()
        else:
            self._send_object()

    def do_HEAD(self) -> None:
        self._send_object()

    def do_DELETE(self) -> None:
        self.store.delete([self.key])
        self.answer(204)

    def do_POST(self) -> None:
        data = self.body()
        if "uploads" in self.query:
            found = f"<UploadId>{self.store.begin_upload()}</UploadId>"
            self.answer(200, _result("InitiateMultipartUploadResult", found))
        elif "uploadId" in self.query:
            whole = self.store.end_upload(self.query["uploadId"])
            self.store.put(self.key, whole, only_if_absent=False)
            self.answer(200, _result("CompleteMultipartUploadResult", "<ETag>1</ETag>"))
        else:
            self._delete_many(data)

    def _delete_many(self, data: bytes) -> None:
        elements = ElementTree.fromstring(data).iter()
        keys = [each.text or "" for each in elements if each.tag.rpartition("}")[2] == "Key"]
        self.store.delete(keys)
        body = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, _result("DeleteResult", body))

    def _send_object(self) -> None:
        data = self.store.get(self.key)
        if data is None:
            self.answer(404, error("NoSuchKey"))
            return
        asked = self.headers.get("Range")
        if asked is None:
            self.answer(200, data, **_HEADERS)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        if start >= len(data):
            self.answer(416, error("InvalidRange"))
            return
        part = f"bytes {start}-{end}/{len(data)}"
        self.answer(206, data[start : end + 1], **_HEADERS, **{"Content-Range": part})

    def _list(self) -> None:
        query = self.query
        after = query.get("continuation-token") or query.get("start-after", "")
        found, has_more = self.store.page(query.get("prefix", ""), after)
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><ETag>1</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, size in found
        )
        more = f"<IsTruncated>{str(has_more).lower()}</IsTruncated>"
        if has_more:
            more += f"<NextContinuationToken>{escape(found[-1][0])}</NextContinuationToken>"
        self.answer(200, _result("ListBucketResult", more + entries))


_HEADERS = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}


def _result(name: str, body: str) -> bytes:
    return f"<{name}>{body}</{name}>".encode()


def error(code: str) -> bytes:
    return f"<Error><Code>{escape(code)}</Code></Error>".encode()
