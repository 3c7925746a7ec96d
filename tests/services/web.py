"""A web service for tests: takes rows, each request once by its key, and fails on request.

::

    service = Service()
    service.answers = [503, "lost", 200]      # one for each request, then 200
    Webhook(service.url)
    service.rows()
    service.close()
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_S = 60.0

Answer = int | tuple[int, dict[str, str]] | str


class Service:
    """Takes rows, each request once by its key, and answers as it is told first."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.taken: dict[str, bytes] = {}
        self.is_down = False
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/rows?v=1"

    def rows(self) -> list[dict[str, Any]]:
        with self._lock:
            return [row for body in self.taken.values() for row in rows_in(body)]

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with self._lock:
            self.requests.append((path, headers, body))
            if self.is_down:
                return 503
            answer = self.answers.pop(0) if self.answers else 200
            # "lost" is a request that is taken and whose answer nobody gets.
            if answer in (200, 204, "lost"):
                self.taken.setdefault(headers["Idempotency-Key"], body)
            return answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = service.answer(self.path, dict(self.headers), body)
                if answer == "lost":
                    self.close_connection = True
                    return
                if answer == "hang":
                    service.released.wait(HANG_S)
                    self.close_connection = True
                    return
                status, more = answer if isinstance(answer, tuple) else (answer, {})
                told = b"the reason why " * 100 if status >= 400 else b""
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, *_: Any) -> None:
                return

        return Handler

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def rows_in(body: bytes) -> list[dict[str, Any]]:
    text = body.decode()
    return json.loads(text) if text.startswith("[") else [json.loads(t) for t in text.splitlines()]
