"""Which worker is given up, and which hosts are taken for lost with it."""

from __future__ import annotations

import pytest

from mainstay.runtime.coordinator.silence import CutOff, Listening, LostHost, Sighting, silence

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
    assert found.is_everywhere


def test_of_one_host_alone_it_cannot_be_told() -> None:
    found = silence(heard(("a", 10.1), ("a", 10.2)), NOW, PATIENCE_S)
    assert found is not None
    assert (found.worker, found.hosts) == (1, ())
    assert found.reason == "it was not heard of for 10.0 s"


def test_what_is_lost_says_for_how_long() -> None:
    found = silence(heard(("a", 0.0), ("b", 12.0), ("b", 11.0)), NOW, PATIENCE_S)
    assert found is not None
    assert found.hosts == (LostHost("b", (1, 2), 11.0),)


# ---------------------------------------------------------------- the driver is cut off

LEASE_S = 60.0


def listening() -> Listening:
    return Listening(PATIENCE_S, LEASE_S)


def test_while_nobody_is_heard_of_anywhere_nobody_is_given_up() -> None:
    watch = listening()
    seen = [Sighting(0, "a", NOW), Sighting(1, "b", NOW + 0.4)]
    assert watch.judge(seen, NOW + 9.0) is None
    assert watch.judge(seen, NOW + 10.4) == CutOff(pytest.approx(10.0), 2)
    assert watch.judge(seen, NOW + 60.39) == CutOff(pytest.approx(59.99), 2)


def test_when_their_lease_is_over_nobody_is_waited_for() -> None:
    watch = listening()
    seen = [Sighting(0, "a", NOW), Sighting(1, "b", NOW)]
    assert watch.judge(seen, NOW + 20.0) == CutOff(20.0, 2)
    found = watch.judge(seen, NOW + 60.1)
    assert found is not None
    assert not isinstance(found, CutOff)
    assert (found.worker, found.hosts, found.is_everywhere) == (0, (), True)


def test_when_one_is_heard_again_the_others_have_as_long_as_ever() -> None:
    watch = listening()
    silent, back_at = Sighting(0, "a", NOW), NOW + 13.0
    assert isinstance(watch.judge([silent, Sighting(1, "b", NOW)], NOW + 12.0), CutOff)
    assert watch.judge([silent, Sighting(1, "b", back_at)], back_at) is None
    assert watch.judge([silent, Sighting(1, "b", NOW + 23.0)], NOW + 23.0) is None
    found = watch.judge([silent, Sighting(1, "b", NOW + 23.1)], NOW + 23.1)
    assert found is not None
    assert not isinstance(found, CutOff)
    assert [lost.host for lost in found.hosts] == ["a"]


def test_when_all_are_heard_again_it_is_as_if_nothing_had_been() -> None:
    watch = listening()
    assert isinstance(watch.judge(heard(("a", 11.0), ("b", 11.0)), NOW), CutOff)
    assert watch.judge(heard(("a", 0.0), ("b", 0.2)), NOW) is None
    later = [Sighting(0, "a", NOW + 50.0), Sighting(1, "b", NOW + 39.0)]
    found = watch.judge(later, NOW + 50.0)
    assert found is not None
    assert not isinstance(found, CutOff)
    assert [lost.host for lost in found.hosts] == ["b"]


def test_a_host_that_is_lost_while_the_other_is_slow_is_lost_once_that_is_heard() -> None:
    """Nobody is given up with the wrong reason: the next attempt would go to the lost host."""
    watch = listening()
    lost, slow = Sighting(0, "a", NOW), Sighting(1, "b", NOW + 5.0)
    assert watch.judge([lost, slow], NOW + 10.1) == CutOff(pytest.approx(5.1), 2)
    assert watch.judge([lost, Sighting(1, "b", NOW + 10.2)], NOW + 10.2) is None
    found = watch.judge([lost, Sighting(1, "b", NOW + 20.3)], NOW + 20.3)
    assert found is not None
    assert not isinstance(found, CutOff)
    assert [each.host for each in found.hosts] == ["a"]


def test_all_workers_of_one_host_are_given_up_as_ever() -> None:
    found = listening().judge(heard(("a", 10.1), ("a", 10.2)), NOW)
    assert found is not None
    assert not isinstance(found, CutOff)
    assert found.worker == 1
