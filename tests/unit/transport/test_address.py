"""Names of hosts that are reached by IPv4, by IPv6, or by either."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
import zmq

from mainstay.transport.address import is_v6, listen, reach

V4, V6 = (socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")
NAMES = {"four": [V4], "six": [V6], "both": [V6, V4], "six-here": [(socket.AF_INET6, "::1")]}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(host: str, port: object, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host not in NAMES:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        kind = socket.SOCK_STREAM
        return [(family, kind, 6, "", (place, port)) for family, place in NAMES[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("four", False), ("six", True), ("both", False), ("nowhere", False), ("fd77::1", True)],
)
def test_a_host_needs_ipv6_when_it_has_no_other_address(host: str, expected: bool) -> None:
    assert is_v6(host) is expected


@pytest.fixture
def make() -> Iterator[Callable[[int], zmq.Socket[bytes]]]:
    with zmq.Context() as context:
        made: list[zmq.Socket[bytes]] = []

        def socket_of(kind: int) -> zmq.Socket[bytes]:
            made.append(context.socket(kind))
            made[-1].linger = 0
            return made[-1]

        yield socket_of
        for each in made:
            each.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")
def test_a_name_that_is_ipv6_only_is_listened_at_by_ipv6(
    make: Callable[[int], zmq.Socket[bytes]],
) -> None:
    listening = make(zmq.PULL)
    address = listen(listening, "six-here")
    assert address.startswith("tcp://six-here:")
    assert listening.ipv6
    pushing = make(zmq.PUSH)
    # ZeroMQ resolves by itself, and knows nothing of the names above.
    reach(pushing, address.replace("six-here", "[::1]"))
    assert pushing.ipv6
    pushing.send(b"by IPv6")
    assert listening.poll(5000)
    assert listening.recv() == b"by IPv6"


def test_names_with_an_ipv4_address_are_reached_by_that(
    make: Callable[[int], zmq.Socket[bytes]],
) -> None:
    pushing = make(zmq.PUSH)
    reach(pushing, "tcp://both:7")
    assert not pushing.ipv6
    local = make(zmq.PUSH)
    reach(local, "ipc://@mainstay-nobody")
    assert not local.ipv6
