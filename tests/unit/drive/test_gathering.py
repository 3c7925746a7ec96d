"""Processes that come in, the numbers that they get, and who is missing."""

from __future__ import annotations

from dataclasses import replace

from mainstay.drive.gathering import Gathering
from mainstay.drive.shipment import Shipment, unpacked
from mainstay.runtime.coordinator.silence import Listening
from mainstay.runtime.deployment import Deployment, RestoredState
from mainstay.runtime.messages import Attempt
from mainstay.runtime.spec import JobSpec
from mainstay.transport.codec import WIRE_VERSION
from mainstay.transport.hub import Hello
from mainstay.transport.links import Peer

ONE = Attempt(1)
DEPLOYMENT = Deployment(
    JobSpec((), 128, "exactly_once"),
    ONE,
    "lineage",
    {(uid, subtask): RestoredState(rewrite=bool(subtask)) for uid in "ab" for subtask in (0, 1)},
)


def hello(process: int, *held: int) -> Hello:
    peer = Peer("place", f"tcp://{process}", None)
    return Hello(ONE, process, WIRE_VERSION, 100 + process, f"host-{process}", peer, held)


def gathered(*hellos: Hello) -> Gathering:
    gathering = Gathering(ONE, 2, Shipment(DEPLOYMENT), 0.0, Listening(10.0, 60.0))
    for each in hellos:
        assert gathering.takes(each)
    return gathering


def test_nobody_is_a_worker_before_all_have_come_in() -> None:
    gathering = gathered(hello(1, 50, 0))
    gathering.heard(1, 3.0)
    assert gathering.welcomes(4.0) == {}
    assert not gathering.is_complete
    assert (gathering.places(), gathering.worker(1), gathering.sightings()) == ({}, None, [])


def test_each_process_is_told_which_worker_it_is_and_where_the_others_are() -> None:
    gathering = gathered(hello(0, 0, 50), hello(1, 50, 0))
    welcomes = gathering.welcomes(4.0)
    assert {process: welcome.worker for process, welcome in welcomes.items()} == {0: 1, 1: 0}
    peers = {0: Peer("place", "tcp://1", None), 1: Peer("place", "tcp://0", None)}
    assert all(welcome.peers == peers for welcome in welcomes.values())
    assert gathering.processes == {0: 1, 1: 0}
    assert gathering.places() == {0: ("host-1", 101), 1: ("host-0", 100)}


def test_each_worker_is_sent_its_own_state_and_no_other() -> None:
    for process, welcome in gathered(hello(0), hello(1)).welcomes(4.0).items():
        sent = unpacked(welcome.deployment, welcome.restored)
        own = {(uid, process): DEPLOYMENT.restored[uid, process] for uid in "ab"}
        assert sent == replace(DEPLOYMENT, restored=own)


def test_signs_of_life_of_a_process_are_those_of_its_worker() -> None:
    gathering = gathered(hello(0, 0, 50), hello(1, 50, 0))
    gathering.welcomes(4.0)
    gathering.heard(0, 9.0)
    gathering.heard(99, 9.0)
    seen = {each.worker: (each.host, each.heard) for each in gathering.sightings()}
    assert seen == {1: ("host-0", 9.0), 0: ("host-1", 4.0)}


def test_a_process_that_comes_twice_or_was_never_started_is_not_taken() -> None:
    gathering = gathered(hello(1))
    assert not gathering.takes(hello(1))
    assert not gathering.takes(hello(2))
    assert list(gathering.hellos) == [1]


def test_who_has_come_and_from_where_is_told_with_how_many_have_not() -> None:
    said = gathered(hello(1)).absence(90.0, "tcp://d:1")
    assert said.startswith(
        "1 of 2 workers did not come in within 90.0 s (these came: process 1 from host-1)."
    )
    assert "(none came)" in gathered().absence(90.0, "tcp://d:1")
