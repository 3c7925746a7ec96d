"""Which worker is given up, and which hosts are taken for lost with it."""

from __future__ import annotations

from mainstay.runtime.coordinator.silence import LostHost, Sighting, silence

PATIENCE_S = 10.0
NOW = 100.0


def heard(*ages: tuple[str, float]) -> list[Sighting]:
    """Workers by their hosts, and how long ago each was heard of."""
    return [Sighting(number, host, NOW - age) for number, (host, age) in enumerate(ages)]


def test_while_all_are_in_time_nothing_follows() -> None:
    assert silence([], NOW, PATIENCE_S) is None
    assert silence(heard(("a", 0.3), ("b", 10.0)), NOW, PATIENCE_S) is None


def test_a_host_whose_only_worker_is_silent_is_lost() -> None:
    found = silence(heard(("a", 0.3), ("b", 10.1)), NOW, PATIENCE_S)
    assert found is not None
    assert (found.worker, found.reason) == (1, "it was not heard of for 10.0 s")
    (lost,) = found.hosts
    assert (lost.host, lost.workers) == ("b", (1,))
    assert round(lost.silent_s, 3) == 10.1


def test_a_host_of_which_one_worker_is_heard_is_not_lost() -> None:
    found = silence(heard(("a", 0.3), ("b", 10.1), ("b", 0.2)), NOW, PATIENCE_S)
    assert found is not None
    assert (found.worker, found.hosts) == (1, ())


def test_workers_that_have_their_heartbeat_at_another_moment_are_lost_with_their_host() -> None:
    found = silence(heard(("b", 9.7), ("a", 0.3), ("b", 10.1)), NOW, PATIENCE_S)
    assert found is not None
    assert [(lost.host, lost.workers) for lost in found.hosts] == [("b", (0, 2))]


def test_two_of_three_hosts_are_lost_at_once() -> None:
    found = silence(heard(("a", 0.3), ("b", 10.1), ("c", 9.8)), NOW, PATIENCE_S)
    assert found is not None
    assert [lost.host for lost in found.hosts] == ["b", "c"]


def test_when_nobody_is_heard_of_the_driver_is_cut_off_and_no_host_is_lost() -> None:
    found = silence(heard(("a", 9.6), ("b", 10.1), ("c", 9.9)), NOW, PATIENCE_S)
    assert found is not None
    assert (found.worker, found.hosts) == (1, ())
    assert found.reason.endswith("10.0 s, nor was any worker of another host")


def test_of_one_host_alone_it_cannot_be_told() -> None:
    found = silence(heard(("a", 10.1), ("a", 10.2)), NOW, PATIENCE_S)
    assert found is not None
    assert (found.worker, found.hosts) == (1, ())
    assert found.reason == "it was not heard of for 10.0 s"


def test_what_is_lost_says_for_how_long() -> None:
    found = silence(heard(("a", 0.0), ("b", 12.0), ("b", 11.0)), NOW, PATIENCE_S)
    assert found is not None
    assert found.hosts == (LostHost("b", (1, 2), 11.0),)
