"""An S3 server for tests: objects in a dictionary under one lock, and faults on request.

It speaks as much of the protocol as the storage uses: PUT with ``If-None-Match``, GET with ranges,
HEAD, DELETE, listings and uploads in parts. A fault is for the next PUT of a key that ends so::

    server = S3Server()
    server.fail("log/0000000007", LOST)      # done, but the connection breaks before the answer
    open_storage("s3://bucket/job")          # with server.environment set
    server.close()
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

LOST = "the answer is lost after the request was done"
CONFLICT = "409: another conditional request is under way"
BUSY = "503: slow down"


class S3Server:
    """Listens on a port of this machine until it is closed."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        """Uploads in several parts that are under way, one for a key."""
        self.puts = 0
        self._faults: list[list[Any]] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(_Handler):
            server_of_tests = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.server_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_REGION": "us-east-1",
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail(self, ending: str, fault: str, times: int = 1) -> None:
        """Have the next PUTs of keys that end so go wrong."""
        with self._lock:
            self._faults.append([ending, fault, times])

    def fault_for(self, key: str) -> str | None:
        with self._lock:
            for fault in self._faults:
                if fault[2] > 0 and key.endswith(fault[0]):
                    fault[2] -= 1
                    kind: str = fault[1]
                    return kind
        return None

    def put(self, key: str, data: bytes, *, only_if_absent: bool) -> bool:
        with self._lock:
            self.puts += 1
            if only_if_absent and key in self.objects:
                return False
            self.objects[key] = data
            return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_tests: S3Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    @property
    def _key(self) -> str:
        """The path without the bucket."""
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query, keep_blank_values=True)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _parts(self) -> dict[int, bytes]:
        return self.server_of_tests.parts.setdefault(self._key, {})

    def do_PUT(self) -> None:
        data = self._body()
        if "partNumber" in self._query:
            self._parts()[int(self._query["partNumber"][0])] = data
            self._answer(200, b"", ETag='"1"')
            return
        fault = self.server_of_tests.fault_for(self._key)
        if fault in (CONFLICT, BUSY):
            self._answer(409 if fault == CONFLICT else 503, _error(fault))
            return
        is_conditional = self.headers.get("If-None-Match") == "*"
        done = self.server_of_tests.put(self._key, data, only_if_absent=is_conditional)
        if fault == LOST:
            self.close_connection = True
            return
        if done:
            self._answer(200, b"", ETag='"1"')
        else:
            self._answer(412, _error("PreconditionFailed"))

    def do_GET(self) -> None:
        if "list-type" in self._query:
            self._list(self._query.get("prefix", [""])[0])
        else:
            self._send_object(with_body=True)

    def do_HEAD(self) -> None:
        self._send_object(with_body=False)

    def do_DELETE(self) -> None:
        self.server_of_tests.objects.pop(self._key, None)
        self._answer(204, b"")

    def do_POST(self) -> None:
        text = self._body().decode()
        if "uploads" in self._query:
            found = "<UploadId>one</UploadId>"
            self._answer(200, _result("InitiateMultipartUploadResult", found))
            return
        if "uploadId" in self._query:
            parts = self.server_of_tests.parts.pop(self._key)
            whole = b"".join(data for _, data in sorted(parts.items()))
            self.server_of_tests.put(self._key, whole, only_if_absent=False)
            self._answer(200, _result("CompleteMultipartUploadResult", "<ETag>1</ETag>"))
            return
        keys = [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]
        for key in keys:
            self.server_of_tests.objects.pop(key, None)
        body = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, _result("DeleteResult", body))

    def _send_object(self, *, with_body: bool) -> None:
        data = self.server_of_tests.objects.get(self._key)
        if data is None:
            self._answer(404, _error("NoSuchKey") if with_body else b"")
            return
        asked = self.headers.get("Range")
        if asked is None:
            self._answer(200, data, with_body=with_body, **_HEADERS)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        if start >= len(data):
            self._answer(416, _error("InvalidRange"))
            return
        part = f"bytes {start}-{end}/{len(data)}"
        self._answer(206, data[start : end + 1], **_HEADERS, **{"Content-Range": part})

    def _list(self, prefix: str) -> None:
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>1</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, data in sorted(self.server_of_tests.objects.items())
            if key.startswith(prefix)
        )
        body = f"<IsTruncated>false</IsTruncated>{entries}"
        self._answer(200, _result("ListBucketResult", body))

    def _answer(self, code: int, data: bytes, *, with_body: bool = True, **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(data)


_HEADERS = {"ETag": '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}


def _result(name: str, body: str) -> bytes:
    return f"<{name}>{body}</{name}>".encode()


def _error(code: str) -> bytes:
    return f"<Error><Code>{escape(code)}</Code></Error>".encode()
