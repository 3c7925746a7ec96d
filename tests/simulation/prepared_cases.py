"""Moments of two-phase commit that no seed comes by, built by hand: each holds or raises."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from mainstay.errors import MainstayError
from mainstay.runtime.messages import Attempt, Epoch
from mainstay.runtime.worker.durability import Durability, UnackedCut
from mainstay.runtime.worker.shared_files import SharedFiles
from mainstay.snapshot.since import Since
from mainstay.state.backends.external.store import StoreAwayError
from mainstay.testing.memory_store import MemoryStoreSettings
from mainstay.testing.memory_votes import VotingMemoryStore
from tests.contract.conftest import BackendUnderTest, OpenBackend
from tests.simulation.external_cases import STATES, forget, key_of

SETTINGS = MemoryStoreSettings("prepared-cases", protocol="prepared")


def opened() -> OpenBackend:
    SETTINGS.fresh()
    return OpenBackend(SETTINGS)


def in_doubt() -> list[Any]:
    return list(SETTINGS.server().prepared)


def voted(backend: BackendUnderTest) -> Any:
    """An epoch that the database has voted for, and that nobody has completed."""
    epoch = backend.write(backend.freeze())
    backend.tend()
    assert backend.keyed.backend.has_voted(backend.epoch)
    return epoch


def completed(backend: BackendUnderTest) -> Any:
    epoch = voted(backend)
    backend.keyed.backend.on_complete(backend.epoch)
    backend.tend()
    return epoch


def the_database_is_away_when_an_epoch_is_cut() -> None:
    """Its segments are durable, and it is acknowledged when the database is back."""
    backend = opened()(STATES, "long")
    backend.at(1).n.update(1)
    acknowledged: list[int] = []
    ports = _ports(backend)
    files = SharedFiles(ports, Attempt(1), 0)
    durability = Durability(
        ports, files, lambda epoch, *_: acknowledged.append(epoch), lambda *_: None
    )
    cut = backend.freeze()
    with patch.object(VotingMemoryStore, "prepare", _away):
        durability.begin(UnackedCut(Epoch(backend.epoch), [(backend.member, cut)], 0.0, 0.0, 0.0))
        _turn(durability, backend)
        assert not acknowledged, "an epoch was acknowledged without a vote"
        assert backend.keyed.backend.trouble is not None
    _turn(durability, backend)
    assert acknowledged == [backend.epoch]
    assert len(in_doubt()) == 1


def _away(*_: Any) -> None:
    raise StoreAwayError("the database is away")


def _ports(backend: BackendUnderTest) -> Any:
    """Work is done at once."""

    def submit(
        run: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]
    ) -> None:
        try:
            found = run()
        except StoreAwayError as error:
            failed(error)
        else:
            done(found)

    clock = SimpleNamespace(monotonic=lambda: 0.0)
    return SimpleNamespace(
        clock=clock,
        storage=backend.storage,
        background=SimpleNamespace(submit=submit),
        state_files=None,
    )


def _turn(durability: Durability, backend: BackendUnderTest) -> None:
    """The loop goes round a few times."""
    for _ in range(10):
        durability.step()
        work = backend.keyed.next_work(backend.storage)
        if work is not None:
            durability._ports.background.submit(work.run, work.done, work.failed)


def somebody_rolls_a_vote_back_by_hand() -> None:
    """Its epoch is complete all the same: the changes are in the storage."""
    backend = opened()(STATES, "long")
    backend.at(1).l.add(1)
    completed(backend)
    backend.at(1).l.add(2)
    voted(backend)
    SETTINGS.server().prepared.clear()
    backend.keyed.backend.on_complete(backend.epoch)
    backend.tend()
    forget(backend)
    assert backend.at(1).l.get() == [1, 2], backend.at(1).l.get()


def the_answer_to_a_commit_is_lost() -> None:
    """The vote is gone when it is committed again, because it was committed."""
    backend = opened()(STATES, "long")
    backend.at(1).l.add(1)
    completed(backend)
    backend.at(1).l.add(2)
    voted(backend)
    backend.keyed.backend.on_complete(backend.epoch)
    work = backend.keyed.next_work(backend.storage)
    assert work is not None
    work.run()
    work.failed(StoreAwayError("the answer is lost"))
    backend.tend()
    forget(backend)
    assert backend.at(1).l.get() == [1, 2], backend.at(1).l.get()


def the_answer_to_a_vote_is_lost_and_its_epoch_is_given_up() -> None:
    """Nobody has heard of the vote, and it does not stay behind."""
    backend = opened()(STATES, "long")
    backend.at(1).l.add(1)
    completed(backend)
    backend.at(1).l.add(2)
    backend.epoch += 1
    cut = backend.member.freeze(backend.epoch)
    (tables,) = list(backend.keyed.encode(cut.segments[-1]))[-1:]
    ref = backend.keyed.write(backend.storage, cut.segments[-1].id, tables)
    backend.keyed.written(cut.segments[-1], ref, tables)
    work = backend.keyed.next_work(backend.storage)
    assert work is not None
    work.run()
    work.failed(StoreAwayError("the answer is lost"))
    assert not backend.keyed.backend.has_voted(backend.epoch)
    backend.keyed.backend.on_abort(backend.epoch)
    backend.tend()
    assert not in_doubt()
    completed(backend)
    forget(backend)
    assert backend.at(1).l.get() == [1, 2], backend.at(1).l.get()


def an_attempt_dies_with_votes_in_doubt() -> None:
    """One subtask's vote is for the last complete epoch, the other's for one that never was."""
    opening = opened()
    first, second = opening.all(STATES, 2, "long")
    first.at(key_of(first)).l.add(1)
    second.at(key_of(second)).l.add(2)
    epochs = [voted(first), voted(second)]
    opening.since = Since(first.epoch, 1)
    second.keyed.backend.on_complete(second.epoch)
    second.tend()
    second.at(key_of(second)).l.add(3)
    voted(second)
    assert len(in_doubt()) == 2
    try:
        (new,) = opening.restore(STATES, epochs, 1, "long")
    except MainstayError as error:
        raise AssertionError(f"a restore is refused: {error}") from error
    assert not in_doubt()
    assert not new.keyed.backend.not_absorbed, "what is complete was rolled back"
    assert new.at(key_of(first)).l.get() == [1]
    assert new.at(key_of(second)).l.get() == [2], new.at(key_of(second)).l.get()


def the_number_of_an_epoch_was_used_again() -> None:
    """A dead attempt has voted; the next one completed epochs before it wrote any state."""
    opening = opened()
    old = opening(STATES, "long")
    old.at(1).l.add(1)
    voted(old)
    opening.since = Since(old.epoch + 1, 2)
    opening.attempt = 2
    opening.lineages[3] = opening.lineages[1]
    new = opening(STATES, "long")
    new.at(1).l.add(2)
    try:
        completed(new)
    except MainstayError as error:
        raise AssertionError(f"the vote of a dead attempt was committed: {error}") from error
    forget(new)
    assert new.at(1).l.get() == [2], new.at(1).l.get()
    assert not in_doubt()


def tables_are_loaded_anew_while_a_vote_is_in_doubt() -> None:
    """What is restored from a savepoint has tables of its own: the vote was for the others."""
    opening = opened()
    old = opening(STATES, "long")
    old.at(1).l.add(1)
    epoch = completed(old)
    old.at(1).l.add(2)
    voted(old)
    opening.since = Since(old.epoch, 1)
    new = opening.reopen(STATES, epoch, "long", rewrite=True)
    assert new.at(1).l.get() == [1], new.at(1).l.get()
    assert not in_doubt()


def a_savepoint_reads_an_epoch_for_long() -> None:
    """Later epochs go on, and all of them are in the database when it is done."""
    backend = opened()(STATES, "long")
    backend.at(1).l.add(1)
    completed(backend)
    saved = backend.epoch
    for number in (2, 3, 4):
        backend.at(1).l.add(number)
        voted(backend)
        backend.keyed.backend.on_held(backend.epoch)
        backend.keyed.backend.on_complete(saved)
        backend.tend()
    rows = SETTINGS.server().applied
    assert len(rows) == 1, "the tables have moved on while a savepoint reads them"
    backend.keyed.backend.on_complete(backend.epoch)
    backend.tend()
    forget(backend)
    assert backend.at(1).l.get() == [1, 2, 3, 4], backend.at(1).l.get()
    assert not in_doubt()


def a_job_ends_while_a_vote_is_held() -> None:
    """The savepoint is done by then, and others find the last epoch in the tables."""
    backend = opened()(STATES, "long")
    backend.at(1).n.update(1)
    voted(backend)
    backend.keyed.backend.on_held(backend.epoch)
    backend.keyed.backend.end()
    assert len(SETTINGS.server().applied) == 1
    assert not in_doubt()


CASES = (
    the_database_is_away_when_an_epoch_is_cut,
    somebody_rolls_a_vote_back_by_hand,
    the_answer_to_a_commit_is_lost,
    the_answer_to_a_vote_is_lost_and_its_epoch_is_given_up,
    an_attempt_dies_with_votes_in_doubt,
    the_number_of_an_epoch_was_used_again,
    tables_are_loaded_anew_while_a_vote_is_in_doubt,
    a_savepoint_reads_an_epoch_for_long,
    a_job_ends_while_a_vote_is_held,
)
