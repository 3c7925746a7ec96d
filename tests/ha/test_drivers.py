"""Several drivers of one job, each a process: killed, frozen, told to end, cut off.

One of each kind; ``test_drivers_soak`` has more of them, and the combinations.
"""

from __future__ import annotations

import pytest

from tests.ha.drivers import (
    LEASE_S,
    WITHIN_S,
    Drivers,
    freeze_leaders,
    freeze_two_of_three,
    hand_over,
    kill_leaders,
)
from tests.services.zookeeper import ZooKeeperServers

# A process at a time that starts so many others is enough.
pytestmark = pytest.mark.xdist_group("drivers")


def test_a_leader_is_killed_and_every_id_counts_once(drivers: Drivers) -> None:
    kill_leaders(drivers, 1)


def test_a_leader_that_was_frozen_past_its_lease_stands_by(drivers: Drivers) -> None:
    freeze_leaders(drivers, 1)


def test_a_leader_that_is_told_to_end_hands_over_at_once(drivers: Drivers) -> None:
    hand_over(drivers)


# ---------------------------------------------------------------- ZooKeeper


@pytest.mark.services
def test_a_leader_by_zookeeper_that_is_told_to_end_hands_over_at_once(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    hand_over(drivers, zookeeper.hosts)


@pytest.mark.services
def test_a_restart_of_zookeeper_within_the_session_does_not_restart_the_job(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    for _ in range(2):
        drivers.start(zookeeper.hosts, lease_s=WITHIN_S)
    leader = drivers.leader()
    zookeeper.kill()
    zookeeper.start()
    assert drivers.leader() is leader
    drivers.finish(1)
    assert leader.led_all_the_time


@pytest.mark.services
def test_two_of_three_servers_are_frozen_and_the_job_goes_on_afterwards(
    drivers: Drivers, ensemble: ZooKeeperServers
) -> None:
    freeze_two_of_three(drivers, ensemble, LEASE_S)
