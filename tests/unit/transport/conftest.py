"""Sockets of the transport, closed when a test ends, and everything that must go with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import psutil
import pytest
import zmq

from mainstay.transport.hub import Hub, identity
from mainstay.transport.keys import AttemptKeys, KeyPair, present
from tests.transport import PATIENCE_S


def await_until(what: Callable[[], Any], why: str, timeout_s: float = PATIENCE_S) -> Any:
    """What a condition gives once it is true."""
    deadline = time.monotonic() + timeout_s
    while not (result := what()):
        assert time.monotonic() < deadline, f"after {timeout_s} s it is not true that {why}"
        time.sleep(0.005)
    return result


def shout(socket: zmq.Socket[bytes], frames: list[Any]) -> None:
    """Send, if the socket takes anything at all: one that was refused may not."""
    with suppress(zmq.Again):
        socket.send_multipart(frames, zmq.NOBLOCK)


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """Every test gives back its threads and its descriptors, ZeroMQ's own among them."""
    process = psutil.Process()
    zmq.Context.instance()
    before = (threading.active_count(), process.num_threads(), process.num_fds())

    def is_as_before() -> bool:
        now = (threading.active_count(), process.num_threads(), process.num_fds())
        return all(count <= was for count, was in zip(now, before, strict=True))

    yield
    await_until(is_as_before, f"threads and descriptors are back at {before}")


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def context(closing: ExitStack) -> zmq.Context[zmq.Socket[bytes]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    closing.callback(context.term)
    return context


@pytest.fixture
def hub(closing: ExitStack) -> Hub:
    hub = Hub("127.0.0.1")
    closing.callback(hub.close)
    return hub


@pytest.fixture
def dial(
    closing: ExitStack, context: zmq.Context[zmq.Socket[bytes]]
) -> Callable[..., zmq.Socket[bytes]]:
    """Opens a socket to an address, with or without keys, under a name."""

    def open_socket(
        address: str, name: bytes, own: KeyPair | None = None, server: bytes | None = None
    ) -> zmq.Socket[bytes]:
        socket = context.socket(zmq.DEALER)
        closing.callback(socket.close)
        socket.linger = 0
        socket.routing_id = name
        if own is not None:
            assert server is not None
            present(socket, own, server)
        socket.connect(address)
        return socket

    return open_socket


@pytest.fixture
def worker(hub: Hub, dial: Any) -> Callable[..., zmq.Socket[bytes]]:
    """A socket with the right keys for the hub."""

    def connect(keys: AttemptKeys, attempt: int, number: int = 0) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = dial(
            hub.address, identity(b"w", attempt, number), keys.worker, keys.hub_public
        )
        return socket

    return connect
