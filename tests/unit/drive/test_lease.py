"""The lease: a process whose coordinator is not heard of ends itself, whatever it is doing."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import cloudpickle
import pytest

from mainstay.drive.lease import EXIT_CODE, Lease, Progress
from mainstay.drive.remote_worker import Bootstrap
from mainstay.transport.hub import Heartbeat, Hello, Hub

LEASE_S = 1.0
PATIENCE_S = 60.0

# Busy in Python from beginning to end, as a worker in the middle of a long function is.
_LEASED = """
import sys, cloudpickle
sys.path[:0] = {path!r}
from mainstay.drive.lease import Lease, Progress
bootstrap = cloudpickle.loads(sys.stdin.buffer.read())
Lease(
    bootstrap.hub_address, bootstrap.keys, bootstrap.attempt, 0, Progress(), bootstrap.lease_s
).start()
while True:
    sum(range(1000))
"""
_WORKER = """
import sys, cloudpickle
sys.path[:0] = {path!r}
from mainstay.drive.remote_worker import RemoteWorker
RemoteWorker(cloudpickle.loads(sys.stdin.buffer.read()), 0, "127.0.0.1").run()
"""

_HASTY = """
import sys, cloudpickle
sys.path[:0] = {path!r}
from mainstay.drive import remote_worker
remote_worker.START_S = 0.2
bootstrap = cloudpickle.loads(sys.stdin.buffer.read())
remote_worker.RemoteWorker(bootstrap, 0, "127.0.0.1").run()
"""
_HEARD = """
import time
from mainstay.drive.lease import Lease
begin = Lease.start

def start(lease):
    begin(lease)
    while not lease.has_begun:
        time.sleep(0.01)

Lease.start = start
"""
"""Has the greeting begin when the hub was heard of."""

Run = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub("127.0.0.1")
    yield hub
    hub.close()


@pytest.fixture
def run(hub: Hub) -> Iterator[Run]:
    """Starts a program with the bootstrap of attempt 1 on its standard input, changed as asked."""
    started: list[subprocess.Popen[bytes]] = []
    bootstrap = Bootstrap(1, hub.address, hub.admit(1), "nowhere", LEASE_S)

    def start(program: str, **changes: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", program.format(path=[p for p in sys.path if p])]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        started.append(process)
        assert process.stdin is not None
        with process.stdin:
            process.stdin.write(cloudpickle.dumps(replace(bootstrap, **changes)))
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def hear(hub: Hub, kind: type, more: int = 1) -> None:
    """Serve the hub until so many messages of a kind have come."""
    deadline = time.monotonic() + PATIENCE_S
    while more > 0:
        assert hub.socket.poll((deadline - time.monotonic()) * 1000), f"no {kind.__name__} came"
        more -= sum(isinstance(message, kind) for message in hub.receive())


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    code = process.wait(PATIENCE_S)
    assert process.stderr is not None
    return code, process.stderr.read().decode()


def test_a_process_that_is_heard_lives_on_beyond_the_lease(hub: Hub, run: Run) -> None:
    process = run(_LEASED)
    hear(hub, Heartbeat)
    began = time.monotonic()
    while time.monotonic() - began < 2 * LEASE_S:
        hear(hub, Heartbeat)
    assert process.poll() is None


def test_a_process_whose_hub_falls_silent_exits_within_the_lease(hub: Hub, run: Run) -> None:
    process = run(_LEASED)
    hear(hub, Heartbeat, more=2)
    silent_since = time.monotonic()
    code, said = ended(process)
    assert code == EXIT_CODE
    assert LEASE_S * 0.5 < time.monotonic() - silent_since < LEASE_S * 2.5
    assert f"the coordinator was not heard of for {LEASE_S} s" in said


def test_a_process_whose_hub_disappears_exits_within_the_lease(run: Run, hub: Hub) -> None:
    process = run(_LEASED)
    hear(hub, Heartbeat, more=2)
    hub.close()
    assert ended(process)[0] == EXIT_CODE


def test_a_process_whose_attempt_is_dropped_is_told_to_die_and_does_so_in_silence(
    hub: Hub, run: Run
) -> None:
    process = run(_LEASED)
    hear(hub, Heartbeat, more=2)
    hub.drop(1)
    serving = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < serving:
        hub.socket.poll(50)
        assert hub.receive() == []
    code, said = ended(process)
    assert (code, said) == (EXIT_CODE, "")


def test_a_process_whose_key_was_refused_exits_within_the_lease(hub: Hub, run: Run) -> None:
    hub.drop(1)
    process = run(_LEASED)
    code, said = ended(process)
    assert (code, "not heard of" in said) == (EXIT_CODE, True)


@pytest.mark.parametrize("has_answered", [False, True])
def test_a_worker_that_waits_for_its_welcome_exits_when_the_hub_disappears(
    hub: Hub, run: Run, has_answered: bool
) -> None:
    process = run(_WORKER)
    if has_answered:
        hear(hub, Hello)
    else:
        hub.socket.poll(PATIENCE_S * 1000)
    hub.close()
    assert ended(process)[0] == EXIT_CODE


def test_a_worker_that_waits_for_others_waits_for_as_long_as_the_coordinator_is_there(
    hub: Hub, run: Run
) -> None:
    process = run(_HASTY.replace("bootstrap =", f"{_HEARD}bootstrap ="))
    hear(hub, Hello)
    began = time.monotonic()
    while time.monotonic() - began < 2 * LEASE_S:
        hear(hub, Heartbeat)
    assert process.poll() is None
    # Without a word from then on it ends as any other.
    assert ended(process)[0] == EXIT_CODE


def test_a_worker_that_no_coordinator_answers_says_where_it_looked_and_what_to_do(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        process = run(_HASTY, hub_address=address)
        code, said = ended(process)
    assert code == 1
    assert f"process 0 on 127.0.0.1 got no answer from the coordinator at {address} within" in said
    assert "Environment(coordinator_host=...)" in said


def test_a_worker_of_an_attempt_that_is_over_exits_at_once(hub: Hub, run: Run) -> None:
    hub.drop(1)
    process = run(_WORKER)
    code, said = ended(process)
    assert (code, "has no coordinator any more" in said) == (EXIT_CODE, True)


def test_a_lease_that_is_stopped_leaves_no_thread(hub: Hub) -> None:
    lease = Lease(hub.address, hub.admit(2), 2, 0, Progress(), 60.0)
    before = threading.active_count()
    lease.start()
    hear(hub, Heartbeat)
    lease.stop()
    assert threading.active_count() == before


def test_the_heartbeat_tells_how_far_the_loop_has_come(hub: Hub) -> None:
    progress = Progress(41)
    lease = Lease(hub.address, hub.admit(2), 2, 3, progress, 60.0)
    lease.start()
    told: list[Any] = []
    while not told:
        assert hub.socket.poll(PATIENCE_S * 1000)
        told += hub.receive()
    lease.stop()
    assert told[0] == Heartbeat(2, 3, 41)
