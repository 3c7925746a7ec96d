"""What Quix Streams reads: a topic that was filled before, or is written at a steady rate."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Iterator

from confluent_kafka import Producer

from benchmarks import workloads

STAMPED = struct.Struct(">id")
"""W3's value: the amount, and when the record was made."""
_INTEGER = struct.Struct(">i")
AT_ONCE = 50_000
TICK_S = 0.001


def free_of_noise() -> None:
    """Warnings of clients that end with their broker would hide what matters."""
    logging.getLogger("quixstreams").setLevel(logging.ERROR)


def fill(servers: str, topic: str, workload: str, first: int, count: int) -> None:
    """Write records (W6: lines) from number ``first`` on, by their keys."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "log_level": 0})
    for at in range(first, first + count, AT_ONCE):
        for key, value in _messages(workload, at, min(AT_ONCE, first + count - at)):
            _send(producer, topic, key, value)
    if left := producer.flush(120):
        raise TimeoutError(f"{left} records did not reach the broker within two minutes")


def _messages(workload: str, first: int, count: int) -> Iterator[tuple[bytes, bytes]]:
    if workload == "W6":
        for number, line in enumerate(workloads.lines(first, count).to_pylist(), first):
            yield _INTEGER.pack(number % workloads.KEYS), line.encode()
        return
    keys, amounts = (column.tolist() for column in workloads.columns(first, count))
    for key, amount in zip(keys, amounts, strict=True):
        is_stamped = workload == "W3"
        value = STAMPED.pack(amount, 0.0) if is_stamped else _INTEGER.pack(amount)
        yield _INTEGER.pack(key), value


def _send(producer: Producer, topic: str, key: bytes, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
            return
        except BufferError:
            producer.poll(0.1)  # its queue is full until some have been delivered


def pace(servers: str, topic: str, rate_per_s: float, ends_at: float) -> None:
    """Write what is due until the end, each record stamped when it is made."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1, "log_level": 0})
    keys, amounts = (column.tolist() for column in workloads.columns(0, AT_ONCE))
    began, made, tick = time.time(), 0, threading.Event()
    while (now := time.time()) < ends_at:
        due = int((now - began) * rate_per_s)
        for number in range(made, due):
            at = number % AT_ONCE
            value = STAMPED.pack(amounts[at], time.time())
            _send(producer, topic, _INTEGER.pack(keys[at]), value)
        made = due
        producer.poll(0)
        tick.wait(TICK_S)
    producer.flush(30)
