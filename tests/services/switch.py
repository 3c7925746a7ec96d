"""A switch in user space: ``python -m tests.services.switch NAMESPACE...`` plugs them together.

Each namespace gets a device ``eth0`` whose frames this process carries, late, lossy or not at all,
as it was last told on its standard input: a line of JSON for each change, answered by a line.

::

    {"host": 1, "delay_s": 0.025, "loss": 0.01, "hears": true, "is_heard": true}
    {"overhear": "a word"}

The answer says how many frames there were, and which of the words it was to overhear were in them.

The kernel's own ways to do this (netem, iptables) are not everywhere, and a cable that carries
frames one way only they do not have at all.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import selectors
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x0002 | 0x1000
DEVICE = b"eth0"
LONGEST_FRAME = 65_536
MOST_AT_ONCE = 64


@dataclass(slots=True)
class Cable:
    """What lies between one host and the switch; delay and loss are of either way."""

    tap: int
    delay_s: float = 0.0
    loss: float = 0.0
    hears: bool = True
    is_heard: bool = True


def open_tap(namespace: str) -> int:
    """A device in a network namespace, as a file of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _enter(libc, other)
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", DEVICE, IFF_TAP_NO_PI))
    finally:
        _enter(libc, own)
        os.close(own)
        os.close(other)
    return tap


def _enter(libc: ctypes.CDLL, namespace: int) -> None:
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Switch:
    """Learns which host has which address, and passes frames on when they are due."""

    def __init__(self, taps: list[int]) -> None:
        self.cables = [Cable(tap) for tap in taps]
        self._homes: dict[bytes, Cable] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._numbers = itertools.count()
        self._random = random.Random(77)
        self.frames = 0
        self.words: dict[bytes, bool] = {}
        """Whether each was in a frame."""

    def read(self, cable: Cable) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                frame = os.read(cable.tap, LONGEST_FRAME)
            except BlockingIOError:
                return
            self._homes[frame[6:12]] = cable
            self.frames += 1
            for word in self.words:
                self.words[word] = self.words[word] or word in frame
            home = self._homes.get(frame[:6])
            for to in self.cables if home is None else [home]:
                if to is not cable:
                    self._pass(frame, cable, to)

    def _pass(self, frame: bytes, sender: Cable, to: Cable) -> None:
        if not (sender.is_heard and to.hears):
            return
        if self._random.random() >= (1 - sender.loss) * (1 - to.loss):
            return
        delay_s = sender.delay_s + to.delay_s
        if delay_s:
            due = time.monotonic() + delay_s
            heapq.heappush(self._late, (due, next(self._numbers), to.tap, frame))
        else:
            _write(to.tap, frame)

    def change(self, host: int | None = None, overhear: str | None = None, **cable: Any) -> None:
        if overhear is not None:
            self.words[overhear.encode()] = False
        for name, value in cable.items():
            assert host is not None
            setattr(self.cables[host], name, value)

    def heard(self) -> dict[str, Any]:
        words = [word.decode() for word, is_heard in self.words.items() if is_heard]
        return {"frames": self.frames, "words": words}

    def deliver(self) -> float | None:
        """Deliver what is due; how long until the next."""
        while self._late:
            left_s = self._late[0][0] - time.monotonic()
            if left_s > 0:
                return left_s
            _, _, tap, frame = heapq.heappop(self._late)
            _write(tap, frame)
        return None


def _write(tap: int, frame: bytes) -> None:
    """A frame that a host cannot take just now is lost, as on any wire."""
    try:
        os.write(tap, frame)
    except BlockingIOError:
        return
    except OSError as error:
        # EIO: the device is not up yet.
        if error.errno != 5:
            raise


def main() -> None:
    switch = Switch([open_tap(namespace) for namespace in sys.argv[1:]])
    selector = selectors.DefaultSelector()
    for cable in switch.cables:
        selector.register(cable.tap, selectors.EVENT_READ, cable)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("plugged in", flush=True)
    while True:
        for key, _ in selector.select(switch.deliver()):
            if key.data is not None:
                switch.read(key.data)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            switch.change(**json.loads(line))
            print(json.dumps(switch.heard()), flush=True)


if __name__ == "__main__":
    main()
