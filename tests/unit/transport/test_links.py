"""Links between workers: order, places, strangers, and what happens when one breaks."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psutil
import pyarrow as pa
import pytest
import zmq

from mainstay.errors import LinkError, ProtocolError
from mainstay.runtime.messages import Attempt, ChannelId, Credit, Data, Epoch, Marker
from mainstay.transport.address import has_local_sockets
from mainstay.transport.codec import encode
from mainstay.transport.keys import AttemptKeys, KeyPair
from mainstay.transport.links import Links, Peer
from tests.transport import PATIENCE_S, Party, link_up
from tests.unit.transport.conftest import await_until, shout

ONE = Attempt(1)
SCHEMA = pa.schema([("n", pa.int64())])
COUNT = 300


def receive(party: Party, timeout_s: float = PATIENCE_S) -> list[Any]:
    return party.receive(timeout_s, SCHEMA)


def receive_count(party: Party, count: int) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < count:
        arrived = receive(party)
        assert arrived, f"only {len(messages)} of {count} messages arrived"
        messages += arrived
    return messages


@pytest.fixture
def keys() -> AttemptKeys:
    return AttemptKeys.new(KeyPair.new().public)


@pytest.fixture
def gather(keys: AttemptKeys, closing: ExitStack) -> Callable[..., list[Party]]:
    """Parties that have linked up, each at the place it is given."""

    def gathered(*places: str) -> list[Party]:
        parties = [Party(number, keys, place) for number, place in enumerate(places)]
        for party in parties:
            closing.callback(party.close)
        link_up(parties)
        return parties

    return gathered


def batch(n: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([n])], schema=SCHEMA)


def data(sender: int, receiver: int, sequence: int) -> Data:
    element = batch(sequence) if sequence % 3 else Marker(Epoch(sequence))
    return Data(ONE, ChannelId(sender * 10 + receiver), sequence, element, 8)


def exchange(parties: list[Party]) -> dict[int, list[Any]]:
    """Everyone sends to everyone at the same time; what each has received."""

    def take_part(party: Party) -> list[Any]:
        others = [other.number for other in parties if other is not party]
        for sequence in range(COUNT):
            for other in others:
                party.links.send(other, data(party.number, other, sequence))
        return receive_count(party, COUNT * len(others))

    with ThreadPoolExecutor(len(parties)) as pool:
        futures = {party.number: pool.submit(take_part, party) for party in parties}
        return {number: future.result() for number, future in futures.items()}


@pytest.mark.parametrize(
    "places", [("a", "a", "a"), ("a", "b", "c"), ("a", "a", "b")], ids=["unix", "tcp", "both"]
)
def test_three_workers_keep_the_order_of_every_pair(gather: Any, places: tuple[str, ...]) -> None:
    parties = gather(*places)
    for receiver, messages in exchange(parties).items():
        for sender in {0, 1, 2} - {receiver}:
            channel = sender * 10 + receiver
            arrived = [message for message in messages if message.channel == channel]
            assert [message.sequence for message in arrived] == list(range(COUNT))
            assert all(
                message.element.equals(batch(message.sequence))
                for message in arrived
                if message.sequence % 3
            )


def connections(kind: str) -> int:
    return sum(c.status == "ESTABLISHED" for c in psutil.Process().net_connections(kind))


def test_workers_of_one_place_meet_on_unix_sockets_and_others_by_tcp(gather: Any) -> None:
    before = connections("tcp")
    gather("a", "a", "a")
    assert connections("tcp") == before
    gather("a", "b", "c")
    # Three links, both ends of which are in this process.
    assert connections("tcp") == before + 6


def test_unix_sockets_have_no_file(gather: Any) -> None:
    for party in gather("a", "a"):
        assert party.links.own.local is not None
        assert party.links.own.local.startswith("ipc://@mainstay-")


def test_what_a_quick_peer_sends_before_a_slow_one_is_linked_is_kept(
    keys: AttemptKeys, closing: ExitStack
) -> None:
    quick, slow, late = (Party(number, keys, "a") for number in range(3))
    for party in (quick, slow, late):
        closing.callback(party.close)
    without_late = {party.number: party.links.own for party in (quick, slow)}
    everyone = {**without_late, 2: late.links.own}
    with ThreadPoolExecutor(3) as pool:
        joining = pool.submit(slow.links.connect, slow.number, everyone, PATIENCE_S)
        pool.submit(quick.links.connect, quick.number, without_late, PATIENCE_S).result()
        quick.links.send(1, Credit(ONE, ChannelId(1), 5))
        # The greeting of the late one comes after the credit of the quick one.
        partial = {1: slow.links.own, 2: late.links.own}
        pool.submit(late.links.connect, late.number, partial, PATIENCE_S).result()
        joining.result()
    assert receive_count(slow, 1) == [Credit(ONE, ChannelId(1), 5)]


def test_a_peer_that_cannot_be_reached_is_named(keys: AttemptKeys, closing: ExitStack) -> None:
    party = Party(0, keys, "a")
    closing.callback(party.close)
    nowhere = Peer("b", "tcp://127.0.0.1:9", None)
    with pytest.raises(LinkError, match=r"worker 0 cannot reach workers \[1\] within 0.2 s"):
        party.links.connect(0, {0: party.links.own, 1: nowhere}, 0.2)


@pytest.mark.parametrize("places", [("a", "a"), ("a", "b")], ids=["unix", "tcp"])
@pytest.mark.parametrize("survivor", [0, 1])
def test_a_worker_that_vanishes_ends_its_peers_with_a_link_error(
    keys: AttemptKeys, closing: ExitStack, places: tuple[str, ...], survivor: int
) -> None:
    parties = [Party(number, keys, place) for number, place in enumerate(places)]
    stays, goes = parties[survivor], parties[1 - survivor]
    closing.callback(stays.close)
    link_up(parties)
    goes.close()

    def is_noticed() -> bool:
        try:
            stays.links.send(goes.number, Credit(ONE, ChannelId(1), 5))
            receive(stays, 0.01)
        except LinkError as error:
            return f"worker {survivor} lost its link to worker {goes.number}" in str(error)
        return False

    await_until(is_noticed, "the loss was noticed")


def test_an_idle_worker_wakes_when_the_peer_it_connected_to_vanishes(
    keys: AttemptKeys, closing: ExitStack
) -> None:
    stays, goes = Party(0, keys, "a"), Party(1, keys, "a")
    closing.callback(stays.close)
    link_up([stays, goes])
    vanishing = threading.Timer(0.05, goes.close)
    vanishing.start()
    with pytest.raises(LinkError, match="worker 0 lost its link to worker 1"):
        receive(stays)
    vanishing.join()


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("kind", ["tcp", "local"])
def test_a_stranger_at_a_worker_gets_nothing_and_disturbs_nothing(
    gather: Any, dial: Any, keys: AttemptKeys, has_keys: bool, kind: str
) -> None:
    parties = gather("a", "a", "a")
    address = getattr(parties[1].links.own, kind)
    own = KeyPair.new() if has_keys else None
    stranger = dial(address, b"\x00\x00\x00\x00", own, keys.worker.public)
    for _ in range(10):
        shout(stranger, encode(Credit(ONE, ChannelId(1), 666)))
        shout(stranger, [b"garbage"])
    received = exchange(parties)
    assert all(isinstance(message, Data) for message in received[1])
    assert not stranger.poll(200), "a stranger was answered"
    assert receive(parties[1], 0.05) == []


def test_garbage_of_a_peer_with_the_keys_ends_the_worker_with_a_protocol_error(
    gather: Any, dial: Any, keys: AttemptKeys
) -> None:
    parties = gather("a", "a")
    broken = dial(parties[0].links.own.tcp, b"\x05\x00\x00\x00", keys.worker, keys.worker.public)
    broken.send(b"garbage")
    with pytest.raises(ProtocolError):
        receive(parties[0])


def test_a_link_under_a_name_that_is_no_number_is_a_protocol_error(
    gather: Any, dial: Any, keys: AttemptKeys
) -> None:
    parties = gather("a", "a")
    broken = dial(parties[0].links.own.tcp, b"somebody", keys.worker, keys.worker.public)
    broken.send(b"G")
    with pytest.raises(ProtocolError, match="somebody"):
        receive(parties[0])


def test_links_that_cannot_listen_leave_nothing_behind(
    context: zmq.Context[zmq.Socket[bytes]], keys: AttemptKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> str:
        raise OSError("no ports left")

    monkeypatch.setattr("mainstay.transport.links.listen", refuse)
    with pytest.raises(OSError, match="no ports left"):
        Links(context, "127.0.0.1", "a", keys)


# ---------------------------------------------------------------- strangers in numbers

FLOODED = """
import resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
import zmq
from mainstay.drive.process import settle_process
from mainstay.transport.keys import AttemptKeys, KeyPair
from mainstay.transport.links import Links
settle_process()
links = Links(zmq.Context(), "127.0.0.1", "place", AttemptKeys.new(KeyPair.new().public))
print(links.own.local, flush=True)
sys.stdin.readline()
print("alive", flush=True)
"""


@pytest.mark.skipif(not has_local_sockets(), reason="there are no Unix sockets without a file here")
def test_connections_without_a_key_do_not_end_a_worker(closing: ExitStack) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", FLOODED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    closing.enter_context(worker)
    closing.callback(worker.kill)
    assert worker.stdin is not None
    assert worker.stdout is not None
    name = worker.stdout.readline().strip().removeprefix("ipc://@")
    for _ in range(600):
        stranger = closing.enter_context(socket.socket(socket.AF_UNIX))
        stranger.connect(f"\0{name}")
    worker.stdin.write("\n")
    worker.stdin.flush()
    assert worker.stdout.readline() == "alive\n"
