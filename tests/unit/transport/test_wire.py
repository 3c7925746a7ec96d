"""What somebody sees who listens on the network, and where there is something to listen to."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import Any

from mainstay.runtime.messages import Ready
from mainstay.transport.address import listen
from mainstay.transport.codec import encode
from mainstay.transport.hub import Hub, Welcome, identity
from tests.unit.transport.conftest import await_until

SECRET = b"the program and its rows"


class Relay:
    """Passes bytes on in both directions, and keeps a copy."""

    def __init__(self, closing: ExitStack, target: str) -> None:
        self.seen = bytearray()
        host, port = target.removeprefix("tcp://").split(":")
        self._listening = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self._far = closing.enter_context(socket.create_connection((host, int(port))))
        self._threads = [threading.Thread(target=self._accept)]
        closing.callback(self._end)
        self._threads[0].start()

    def _accept(self) -> None:
        self._near, _ = self._listening.accept()
        for pair in ((self._near, self._far), (self._far, self._near)):
            thread = threading.Thread(target=self._pass_on, args=pair)
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(65536):
            self.seen += data
            target.sendall(data)

    def _end(self) -> None:
        for each in (self._near, self._far):
            each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._near.close()


def test_whoever_listens_on_the_network_reads_nothing(
    hub: Hub, closing: ExitStack, dial: Any
) -> None:
    keys = hub.admit(1)
    relay = Relay(closing, hub.address)
    worker = dial(relay.address, identity(b"w", 1, 0), keys.worker, keys.hub_public)
    worker.send_multipart(encode(Ready(1, 0)))
    await_until(hub.receive, "the hub has heard the worker")
    hub.send(1, 0, Welcome(1, 0, SECRET * 100, b"", {}))
    assert worker.poll(10_000)
    assert SECRET in b"".join(worker.recv_multipart())
    assert len(relay.seen) > len(SECRET) * 100
    assert SECRET not in relay.seen
    assert keys.worker.secret not in relay.seen


def test_a_socket_for_this_machine_listens_on_loopback_and_others_on_all_interfaces(
    closing: ExitStack, context: Any
) -> None:
    for host, bound in (("127.0.0.1", b"tcp://127.0.0.1:"), ("driver.example", b"tcp://0.0.0.0:")):
        listening = closing.enter_context(context.socket(5))
        shown = listen(listening, host)
        assert shown.startswith(f"tcp://{host}:")
        assert listening.last_endpoint.startswith(bound)
