"""The hub: who is heard, who is not, and that nobody can disturb it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import zmq

from mainstay.runtime.messages import Attempt, ChannelId, Data, Ready, Release
from mainstay.transport.codec import decode, encode
from mainstay.transport.hub import Die, Garbled, Heartbeat, Hub, beat, identity
from mainstay.transport.keys import AttemptKeys, KeyPair
from tests.unit.transport.conftest import PATIENCE_S, await_until, shout

Connect = Callable[..., zmq.Socket[bytes]]
ONE = Attempt(1)


def no_schema(channel: int) -> Any:
    raise AssertionError(channel)


def heard(hub: Hub, count: int = 1) -> list[Any]:
    messages: list[Any] = []

    def enough() -> bool:
        messages.extend(hub.receive())
        return len(messages) >= count

    await_until(enough, f"{count} messages have arrived")
    return messages


def answer(socket: zmq.Socket[bytes]) -> Any:
    assert socket.poll(PATIENCE_S * 1000), "nothing was answered"
    return decode(socket.recv_multipart(), no_schema)


def traffic_goes_on(hub: Hub, socket: zmq.Socket[bytes], number: int = 0) -> None:
    """A message there and one back, and nothing else on the way."""
    socket.send_multipart(encode(Ready(ONE, number)))
    assert heard(hub) == [Ready(ONE, number)]
    hub.send(ONE, number, Release(ONE))
    assert answer(socket) == Release(ONE)


def test_a_worker_is_heard_and_answered(hub: Hub, worker: Connect) -> None:
    traffic_goes_on(hub, worker(hub.admit(ONE), ONE))


def test_a_heartbeat_is_echoed_and_handed_on(hub: Hub, dial: Any) -> None:
    keys = hub.admit(ONE)
    socket = dial(hub.address, identity(b"h", ONE, 4), keys.worker, keys.hub_public)
    socket.send(beat(17))
    assert heard(hub) == [Heartbeat(ONE, 4, 17)]
    assert socket.poll(PATIENCE_S * 1000)
    assert socket.recv_multipart() == [beat(17)]


def test_the_secret_of_the_hub_stays_with_it(hub: Hub) -> None:
    first, second = hub.admit(1), hub.admit(2)
    secret = hub._keys.secret
    assert secret not in (first.worker.secret, second.worker.secret)
    assert first.worker != second.worker
    assert first.hub_public == second.hub_public == hub._keys.public
    assert first.worker.secret.decode() not in repr(first)


# ---------------------------------------------------------------- strangers


def stranger_without_keys(hub: Hub, dial: Any, dropped: AttemptKeys) -> zmq.Socket[bytes]:
    return dial(hub.address, identity(b"w", ONE, 1))  # type: ignore[no-any-return]


def stranger_with_own_keys(hub: Hub, dial: Any, dropped: AttemptKeys) -> zmq.Socket[bytes]:
    name = identity(b"w", ONE, 1)
    return dial(hub.address, name, KeyPair.new(), dropped.hub_public)  # type: ignore[no-any-return]


def stranger_with_wrong_hub_key(hub: Hub, dial: Any, dropped: AttemptKeys) -> zmq.Socket[bytes]:
    keys, name = hub.admit(ONE), identity(b"w", ONE, 1)
    return dial(hub.address, name, keys.worker, KeyPair.new().public)  # type: ignore[no-any-return]


def worker_of_a_dropped_attempt(hub: Hub, dial: Any, dropped: AttemptKeys) -> zmq.Socket[bytes]:
    name = identity(b"w", ONE, 1)
    return dial(hub.address, name, dropped.worker, dropped.hub_public)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "stranger",
    [
        stranger_without_keys,
        stranger_with_own_keys,
        stranger_with_wrong_hub_key,
        worker_of_a_dropped_attempt,
    ],
)
def test_a_stranger_is_not_heard_gets_nothing_and_disturbs_nothing(
    hub: Hub, worker: Connect, dial: Any, stranger: Any
) -> None:
    dropped = hub.admit(7)
    hub.drop(7)
    intruder = stranger(hub, dial, dropped)
    legitimate = worker(hub.admit(ONE), ONE)
    for _ in range(3):
        shout(intruder, encode(Ready(ONE, 1)))
        shout(intruder, [b"garbage", b"more"])
        hub.send(ONE, 1, Release(ONE))
        traffic_goes_on(hub, legitimate)
    assert not intruder.poll(200), "a stranger was answered"
    assert hub.receive() == []


def test_a_connection_that_outlives_its_attempt_is_told_to_die(hub: Hub, worker: Connect) -> None:
    old = worker(hub.admit(ONE), ONE)
    traffic_goes_on(hub, old)
    hub.drop(ONE)
    old.send_multipart(encode(Ready(ONE, 0)))
    assert await_until(lambda: hub.receive() == [] and old.poll(10), "it was answered")
    assert answer(old) == Die(ONE)


def test_the_key_of_one_attempt_does_not_speak_for_another(
    hub: Hub, worker: Connect, dial: Any
) -> None:
    first, second = hub.admit(ONE), hub.admit(2)
    impostor = dial(hub.address, identity(b"w", 2, 5), first.worker, first.hub_public)
    impostor.send_multipart(encode(Ready(Attempt(2), 5)))
    real = worker(second, 2)
    real.send_multipart(encode(Ready(Attempt(2), 0)))
    assert heard(hub) == [Ready(Attempt(2), 0)]
    assert await_until(lambda: hub.receive() == [] and impostor.poll(10), "it was answered")
    assert answer(impostor) == Die(2)


# ---------------------------------------------------------------- broken workers


@pytest.mark.parametrize(
    "frames",
    [
        [b""],
        [b"Pgarbage"],
        [b"?" * 25],
        encode(42),
        encode(Ready(Attempt(9), 0)),
        encode(Data(ONE, ChannelId(0), 0, pa.record_batch({"n": [1]}), 1)),
    ],
    ids=["nothing", "no pickle", "no kind", "no message", "of another attempt", "a batch"],
)
def test_garbage_of_a_worker_is_reported_and_the_others_are_heard(
    hub: Hub, worker: Connect, frames: list[Any]
) -> None:
    keys = hub.admit(ONE)
    broken, whole = worker(keys, ONE, 1), worker(keys, ONE, 0)
    broken.send_multipart(frames)
    (message,) = heard(hub)
    assert isinstance(message, Garbled)
    assert (message.attempt, message.process) == (ONE, 1)
    assert message.reason
    traffic_goes_on(hub, whole)


def test_a_heartbeat_that_says_nonsense_is_reported(hub: Hub, dial: Any) -> None:
    keys = hub.admit(ONE)
    socket = dial(hub.address, identity(b"h", ONE, 4), keys.worker, keys.hub_public)
    socket.send(b"alive")
    (message,) = heard(hub)
    assert isinstance(message, Garbled)
    assert not socket.poll(100), "nonsense was echoed"


@pytest.mark.parametrize("name", [b"x", b"w" * 20])
def test_a_worker_under_an_unknown_kind_of_name_is_not_heard(
    hub: Hub, worker: Connect, dial: Any, name: bytes
) -> None:
    keys = hub.admit(ONE)
    odd = dial(hub.address, name, keys.worker, keys.hub_public)
    odd.send(b"hello")
    traffic_goes_on(hub, worker(keys, ONE))


def test_sending_to_a_worker_that_is_gone_harms_nothing(hub: Hub, worker: Connect) -> None:
    keys = hub.admit(ONE)
    gone, here = worker(keys, ONE, 1), worker(keys, ONE, 0)
    traffic_goes_on(hub, gone, number=1)
    gone.close()
    for _ in range(100):
        hub.send(ONE, 1, Release(ONE))
        hub.send(ONE, 99, Release(ONE))
    traffic_goes_on(hub, here)


def test_a_hub_that_cannot_listen_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> str:
        raise OSError("no ports left")

    monkeypatch.setattr("mainstay.transport.hub.listen", refuse)
    with pytest.raises(OSError, match="no ports left"):
        Hub("127.0.0.1")
