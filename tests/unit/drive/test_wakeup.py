"""The bell: heard once, however often it is rung, and harmless after it was taken down."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import zmq

from mainstay.drive.wakeup import Wakeup


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    wakeup = Wakeup()
    yield wakeup
    wakeup.close()


def is_ringing(wakeup: Wakeup, timeout_s: float = 0.0) -> bool:
    poller = zmq.Poller()
    poller.register(wakeup.listening, zmq.POLLIN)
    return bool(poller.poll(timeout_s * 1000))


def test_a_ring_from_another_thread_ends_the_wait(wakeup: Wakeup) -> None:
    ringing = threading.Timer(0.02, wakeup.ring)
    ringing.start()
    assert is_ringing(wakeup, timeout_s=10)
    ringing.join()


def test_it_is_quiet_before_the_first_ring_and_after_it_was_noted(wakeup: Wakeup) -> None:
    assert not is_ringing(wakeup)
    wakeup.ring()
    assert is_ringing(wakeup)
    wakeup.quiet()
    assert not is_ringing(wakeup)


def test_it_never_blocks_however_often_it_is_rung(wakeup: Wakeup) -> None:
    for _ in range(100_000):
        wakeup.ring()
    wakeup.quiet()
    assert not is_ringing(wakeup)
    wakeup.ring()
    assert is_ringing(wakeup)


def test_ringing_a_closed_bell_does_nothing() -> None:
    wakeup = Wakeup()
    wakeup.close()
    wakeup.ring()
    assert wakeup.listening.fileno() == -1
