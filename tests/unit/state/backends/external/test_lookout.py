"""Votes that are in doubt for long are told: by one subtask, when it is time, until it is over."""

from __future__ import annotations

import pytest

from mainstay.state.backends.contract import MOST_NAMED, Doubts
from mainstay.state.backends.external.lookout import AGAIN_S, LONG_S, Lookout
from mainstay.state.backends.external.store import StoreAwayError, TableSet
from mainstay.state.backends.external.votes import Doubt, Vote
from mainstay.state.keygroups import KeyGroupRange

TABLES = TableSet("job", "totals")
OURS = Vote(TABLES, 1, KeyGroupRange(0, 63), 7)
THEIRS = Vote(TABLES, 1, KeyGroupRange(64, 127), 7)


class Watched:
    """A lookout over a database that has these votes in doubt, with their ages."""

    def __init__(self, votes: dict[Vote, float]) -> None:
        self.votes, self.errors = votes, list[Exception]()
        self.lookout = Lookout(self._doubts, self.errors.append)

    def _doubts(self) -> list[Doubt]:
        return [Doubt(vote, age_s, f"end {vote.groups}") for vote, age_s in self.votes.items()]

    def looks(self) -> bool:
        work = self.lookout.next_work()
        if work is not None:
            work.done(work.run())
        return work is not None

    def after(self, waited_s: float, vote: Vote | None = OURS) -> Doubts | None:
        self.lookout.told(0.0, vote)
        self.lookout.told(waited_s, vote)
        self.looks()
        return self.lookout.told(waited_s, vote)


def test_a_vote_that_waits_for_a_moment_is_not_asked_about() -> None:
    watched = Watched({OURS: 1.0})
    watched.lookout.told(0.0, OURS)
    watched.lookout.told(LONG_S - 1, OURS)
    assert not watched.looks()


def test_votes_that_wait_long_are_told_with_how_many_and_how_old() -> None:
    found = Watched({OURS: LONG_S + 1, THEIRS: LONG_S + 9}).after(LONG_S)
    assert found is not None
    assert (found.epoch, found.oldest_s, len(found.ends)) == (7, LONG_S + 9, 2)


@pytest.mark.parametrize(("vote", "is_told"), [(OURS, True), (THEIRS, False)])
def test_one_subtask_tells_for_all(vote: Vote, is_told: bool) -> None:
    found = Watched({OURS: LONG_S, THEIRS: LONG_S}).after(LONG_S, vote)
    assert (found is not None) == is_told


def test_a_subtask_tells_where_those_before_it_have_not_voted_or_only_just() -> None:
    assert Watched({THEIRS: LONG_S}).after(LONG_S, THEIRS) is not None
    assert Watched({OURS: 1.0, THEIRS: LONG_S}).after(LONG_S, THEIRS) is not None


def test_the_database_is_asked_again_only_after_a_while() -> None:
    watched = Watched({OURS: LONG_S})
    watched.after(LONG_S)
    watched.lookout.told(LONG_S + AGAIN_S - 1, OURS)
    assert not watched.looks()
    watched.votes = {}
    watched.lookout.told(LONG_S + AGAIN_S, OURS)
    assert watched.looks()
    assert watched.lookout.told(LONG_S + AGAIN_S, OURS) is None


def test_it_is_over_with_the_vote() -> None:
    watched = Watched({OURS: LONG_S})
    assert watched.after(LONG_S) is not None
    assert watched.lookout.told(LONG_S + 1, None) is None


def test_an_answer_that_comes_after_the_vote_was_settled_says_nothing() -> None:
    watched = Watched({OURS: LONG_S})
    watched.lookout.told(0.0, OURS)
    watched.lookout.told(LONG_S, OURS)
    work = watched.lookout.next_work()
    assert work is not None
    later = Vote(TABLES, 1, OURS.groups, 8)
    watched.lookout.told(LONG_S, later)
    work.done(work.run())
    assert watched.lookout.told(LONG_S, later) is None


def test_a_database_that_does_not_answer_is_asked_later() -> None:
    watched = Watched({OURS: LONG_S})
    watched.lookout.told(0.0, OURS)
    watched.lookout.told(LONG_S, OURS)
    work = watched.lookout.next_work()
    assert work is not None
    work.failed(StoreAwayError("away"))
    assert len(watched.errors) == 1
    assert not watched.looks()
    watched.lookout.told(LONG_S + AGAIN_S, OURS)
    assert watched.looks()


def test_some_are_named_and_the_others_counted() -> None:
    told = Doubts(7, 1.0, tuple(f"end {n}" for n in range(MOST_NAMED + 2))).told
    assert "epoch 7" in told
    assert told.endswith(f"end {MOST_NAMED - 1} and 2 more")
