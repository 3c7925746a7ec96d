"""What is written to ZooKeeper, and who can write it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mainstay.errors import GraphError
from mainstay.ha import zookeeper as elections
from tests.drive.ledger import await_until
from tests.ha.voters import Voter, ZooKeeperPlace
from tests.services.zookeeper import ZooKeeperServers

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("zookeeper")]


@pytest.fixture
def where(zookeeper: ZooKeeperServers) -> ZooKeeperPlace:
    return ZooKeeperPlace(zookeeper, 1)


@pytest.fixture
def client(zookeeper: ZooKeeperServers) -> Iterator[Any]:
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def leader(where: ZooKeeperPlace) -> Iterator[Voter]:
    voter = Voter(where.election(), [])
    voter.start().hears("elected")
    yield voter
    voter.stop()


def information(client: Any, where: ZooKeeperPlace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get(f"{where.path}/leader")[0] or b"{}")
    return found


def test_the_leader_says_who_it_is_and_where_the_job_stands(
    client: Any, where: ZooKeeperPlace, leader: Voter
) -> None:
    leader.election.note(3, 17)
    await_until(
        lambda: (
            client.exists(f"{where.path}/leader") and information(client, where).get("epoch") == 17
        ),
        "the leader has said where the job stands",
    )
    found = information(client, where)
    assert found["attempt"] == 3
    assert "process" in found["who"]


def test_a_leader_without_its_node_writes_nothing(
    client: Any, where: ZooKeeperPlace, leader: Voter
) -> None:
    from kazoo.exceptions import NoNodeError

    await_until(lambda: client.exists(f"{where.path}/leader"), "the leader has said who it is")
    await_until(lambda: information(client, where), "there is something")
    campaign: Any = leader.election._campaign  # type: ignore[attr-defined]
    before = information(client, where)
    node = campaign._node
    client.delete(f"{where.path}/line/{node}")
    campaign._node = node
    with pytest.raises(NoNodeError):
        campaign._publish({"who": "a leader that was replaced"})
    assert information(client, where).get("who") == before["who"]
    leader.hears("lost")


def test_a_session_that_expired_is_followed_by_a_place_at_the_end_of_the_line(
    client: Any, where: ZooKeeperPlace, leader: Voter
) -> None:
    second = Voter(where.election(), [])
    second.start()
    await_until(lambda: len(client.get_children(f"{where.path}/line")) == 2, "two are in line")
    campaign: Any = leader.election._campaign  # type: ignore[attr-defined]
    client.delete(f"{where.path}/line/{campaign._node}")
    leader.hears("lost")
    second.hears("elected")
    await_until(lambda: len(client.get_children(f"{where.path}/line")) == 2, "it is in line again")
    second.stop()
    leader.hears("elected", leader.told.index("lost"))


def test_without_the_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(GraphError, match=r"mainstay\[zookeeper\]"):
        elections.ZooKeeperElection("127.0.0.1:1", "/path", 1.0, "token")
