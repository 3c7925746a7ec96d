"""What holds for every election, wherever it is held."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstay.snapshot.object_storage import open_storage
from tests.ha.voters import PATIENCE_S, StoragePlace, Voter, place

MARKS = [pytest.mark.services, pytest.mark.xdist_group("zookeeper")]
KINDS = (
    "memory",
    "directory",
    "s3",
    pytest.param("zookeeper", marks=MARKS),
    pytest.param("ensemble", marks=MARKS),
)

Join = Callable[[], Voter]


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with place(request.param, tmp_path, request) as found:
        yield found
        found.back()


@pytest.fixture
def join(where: Any) -> Iterator[Join]:
    """Adds a candidate. At the end of a test, no two of them may ever have led at a time."""
    voters: list[Voter] = []
    yield lambda: Voter(where.election(), voters).start()
    for voter in voters:
        voter.stop()
    assert [voter.overlaps for voter in voters if voter.overlaps] == []


def leader_of(voters: list[Voter]) -> Voter:
    """The one that leads, as soon as there is one."""
    until = threading.Event()
    for _ in range(int(PATIENCE_S / 0.02)):
        leading = [voter for voter in voters if voter.leads]
        if leading:
            return leading[0]
        until.wait(0.02)
    raise AssertionError(f"nobody leads: {[voter.told for voter in voters]}")


def test_a_candidate_alone_is_elected(join: Join) -> None:
    voter = join()
    voter.hears("elected")
    assert "process" in voter.election.leader


def test_the_lead_passes_on_when_leaders_resign_until_nobody_is_left(join: Join) -> None:
    voters = [join() for _ in range(5)]
    for _ in range(5):
        leader = leader_of(voters)
        leader.stop()
        voters.remove(leader)


def test_who_stands_by_knows_who_leads(join: Join) -> None:
    join().hears("elected")
    second = join()
    for _ in range(int(PATIENCE_S / 0.02)):
        if second.election.leader:
            break
        threading.Event().wait(0.02)
    assert "process" in second.election.leader


def test_a_place_that_is_away_brings_doubt_then_loss_and_works_again_afterwards(
    where: Any, join: Join
) -> None:
    voters = [join(), join()]
    leader = leader_of(voters)
    (other,) = [voter for voter in voters if voter is not leader]
    told = len(other.told)
    where.away()
    doubted = leader.hears("doubted")
    leader.hears("lost", doubted)
    assert "elected" not in other.told[told:]
    where.back()
    first = leader_of(voters)
    first.stop()
    voters.remove(first)
    leader_of(voters)


def test_what_is_wrong_is_told_while_it_lasts(where: Any, join: Join) -> None:
    voter = join()
    voter.hears("elected")
    where.away()
    voter.hears("lost")
    assert voter.election.trouble
    where.back()
    voter.hears("elected", voter.told.index("lost"))
    for _ in range(int(PATIENCE_S / 0.02)):
        if not voter.election.trouble:
            break
        threading.Event().wait(0.02)
    assert not voter.election.trouble


def test_a_candidate_may_leave_and_come_back(join: Join) -> None:
    voter = join()
    voter.hears("elected")
    voter.election.resign()
    voter.leads = False
    voter.election.campaign(voter)
    voter.hears("elected", 1)


def test_a_candidate_that_left_hears_nothing_more(where: Any, join: Join) -> None:
    voter = join()
    voter.hears("elected")
    voter.stop()
    told = list(voter.told)
    where.away()
    threading.Event().wait(where.length_s)
    assert voter.told == told


def test_a_leader_whose_lease_was_deleted_steps_down_and_somebody_leads(tmp_path: Path) -> None:
    place = StoragePlace(lambda: open_storage(str(tmp_path)))
    voters: list[Voter] = []
    for _ in range(2):
        Voter(place.election(), voters).start()
    leader = leader_of(voters)
    for path in (tmp_path / "leader").iterdir():
        path.unlink(missing_ok=True)
    leader.hears("lost")
    leader_of(voters)
    for voter in voters:
        voter.stop()


def test_one_that_never_campaigned_may_resign(where: Any) -> None:
    where.election().resign()
