"""Several drivers of one job over many rounds, and cut off for long.

How long each take-over took is printed (``-s`` shows it), and never judged.
"""

from __future__ import annotations

import signal
import threading

import pytest

from tests.drive.ledger import await_until
from tests.ha.drivers import (
    LEASE_S,
    PATIENCE_S,
    WITHIN_S,
    Drivers,
    freeze_leaders,
    freeze_two_of_three,
    kill_leaders,
)
from tests.services.zookeeper import ZooKeeperServers

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("drivers")]

OUTAGE_S = 30.0
LONG_S = 60.0
"""A session that outlasts an outage, and is in doubt by the end of it."""


@pytest.mark.parametrize("seed", range(5))
def test_many_leaders_are_killed(drivers: Drivers, seed: int) -> None:
    kill_leaders(drivers, 4, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_many_leaders_are_frozen(drivers: Drivers, seed: int) -> None:
    freeze_leaders(drivers, 2, seed=seed)


def test_two_leaders_are_killed_in_a_row_and_the_third_driver_takes_over(drivers: Drivers) -> None:
    for _ in range(3):
        drivers.start()
    drivers.kill(drivers.leader())
    drivers.kill(drivers.leader())
    drivers.finish(3)


@pytest.mark.parametrize("drivers", [3], indirect=True)
def test_leaders_that_die_inside_the_commit_of_a_sink_repeat_and_lose_nothing(
    drivers: Drivers,
) -> None:
    for _ in range(4):
        drivers.start()
    for _ in range(3):
        died = await_until(
            lambda: [each for each in drivers.alive if each.process.poll() is not None],
            "a leader has died in a commit",
            PATIENCE_S,
        )
        assert [each.process.returncode for each in died] == [-signal.SIGKILL] * len(died)
        drivers.alive[:] = [each for each in drivers.alive if each not in died]
        if len(drivers.alive) == 1:
            break
    drivers.finish(4)


def test_wall_clocks_that_are_an_hour_apart_change_nothing(drivers: Drivers) -> None:
    first = drivers.start(shift_s=-3600.0)
    assert drivers.leader() is first
    drivers.start(shift_s=3600.0)
    second = drivers.alive[-1]
    await_until(lambda: second.status == "standby", "the other one stands by")
    epoch = drivers.epoch
    await_until(lambda: drivers.epoch > epoch + 5, "the first goes on")
    assert first.leads
    drivers.kill(first)
    drivers.finish(2)


# ---------------------------------------------------------------- ZooKeeper


@pytest.mark.services
def test_leaders_by_zookeeper_are_killed_and_every_id_counts_once(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    kill_leaders(drivers, 4, zookeeper.hosts)


@pytest.mark.services
def test_leaders_by_zookeeper_that_were_frozen_stand_by(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    freeze_leaders(drivers, 2, zookeeper.hosts)


@pytest.mark.services
def test_zookeeper_is_restarted_and_the_job_goes_on(
    drivers: Drivers, zookeeper: ZooKeeperServers
) -> None:
    for _ in range(2):
        drivers.start(zookeeper.hosts, lease_s=LEASE_S)
    drivers.leader()
    zookeeper.kill()
    zookeeper.start()
    drivers.leader()
    drivers.finish(1)


@pytest.mark.services
def test_all_of_an_ensemble_is_restarted_within_the_session_and_the_job_is_not(
    drivers: Drivers, ensemble: ZooKeeperServers
) -> None:
    for _ in range(2):
        drivers.start(ensemble.hosts, lease_s=2 * WITHIN_S)
    leader = drivers.leader()
    for number in range(3):
        ensemble.kill(number)
    for number in range(3):
        ensemble.start(number, is_awaited=number == 2)
    assert drivers.leader() is leader
    drivers.finish(1)
    assert leader.led_all_the_time


@pytest.mark.services
def test_two_of_three_servers_are_frozen_for_long_within_the_session(
    drivers: Drivers, ensemble: ZooKeeperServers
) -> None:
    """Epochs pause in doubt, and go on afterwards; the job is not restarted."""
    for _ in range(2):
        drivers.start(ensemble.hosts, lease_s=LONG_S)
    leader = drivers.leader()
    ensemble.freeze(0, 1)
    try:
        threading.Event().wait(OUTAGE_S)
        epoch = drivers.epoch
        threading.Event().wait(2.0)
        assert drivers.epoch == epoch, "the leader is in doubt"
    finally:
        ensemble.thaw(0, 1)
    assert drivers.leader() is leader
    drivers.finish(1)
    assert leader.led_all_the_time


@pytest.mark.services
def test_two_of_three_servers_are_frozen_for_longer_than_the_session(
    drivers: Drivers, ensemble: ZooKeeperServers
) -> None:
    freeze_two_of_three(drivers, ensemble, OUTAGE_S)
