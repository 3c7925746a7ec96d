"""What answers, and is no job, is said to be none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mainstay.client.address import Address
from mainstay.client.service import Service
from mainstay.errors import UnreachableError


class Stranger(BaseHTTPRequestHandler):
    """Answers as a server of something else does."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b"<html>not here</html>")

    def log_message(self, *_: object) -> None:
        """Nothing is written."""


@pytest.fixture
def stranger() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_of_something_else_is_no_job(stranger: str) -> None:
    with pytest.raises(UnreachableError, match="answers with 404, and not as a job does"):
        Service(Address.of(stranger, "t")).get("/job")


def test_where_nothing_listens_the_remedy_is_the_snapshot_directory() -> None:
    with pytest.raises(UnreachableError, match="snapshot directory"):
        Service(Address.of("http://127.0.0.1:9", "t")).get("/job")
