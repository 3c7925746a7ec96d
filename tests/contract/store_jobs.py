"""A job that calls stores as the backend does: at random, and always as it may.

It writes segments, cuts epochs, completes or gives them up, brings segments to the database partly
and again, fails, and goes on with other subtasks from an epoch that it may go back to.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mainstay.errors import RestoreError
from mainstay.state.backends.external.ledger import NOTHING
from mainstay.state.backends.external.store import Applied, TableSet, uncovered
from mainstay.state.backends.external.votes import FenceHeldError, Part, Vote
from mainstay.state.keygroups import KeyGroupRange, range_of
from tests.contract.store_pairs import STATES, Pair, ledger_of
from tests.contract.store_rows import (
    KEYS,
    MAP_KEYS,
    Contents,
    Segment,
    after,
    as_loaded,
    drawn,
    k_of,
)

GROUPS = 6
EVERY = KeyGroupRange(0, GROUPS - 1)


@dataclass(slots=True)
class Waiting:
    """A segment that a subtask has to bring, with the number that it has given to it."""

    segment: Segment
    number: int
    groups: KeyGroupRange
    epoch: int

    @property
    def row(self) -> Applied:
        return Applied(self.segment.id, self.epoch, self.number, self.groups)


@dataclass(slots=True, eq=False)
class Subtask:
    """What one subtask of an attempt knows."""

    pair: Pair
    attempt: int
    groups: KeyGroupRange
    number: int = 0
    waiting: list[Waiting] = field(default_factory=list)
    vote: Vote | None = None
    said: int = 0

    def take(self, segment: Segment, groups: KeyGroupRange, epoch: int) -> None:
        self.number += 1
        self.waiting.append(Waiting(segment, self.number, groups, epoch))

    def has_all_of(self, epoch: int) -> bool:
        return not any(each.epoch <= epoch for each in self.waiting)


class Job:
    """A job of one operator, and the model of its state at each epoch."""

    def __init__(self, random: Random, protocol: str, connect: Callable[[], Pair], name: str):
        self.random, self.protocol, self._connect = random, protocol, connect
        self.began = "v" if protocol == "versioned" else ""
        self.tables = TableSet(name, "op", self.began)
        self.attempt = self.epoch = self.floor = self.pointer = self.folded = 0
        self.numbers = self.segments = 0
        self.is_made = False
        self.base: Contents = {}
        self.contents: dict[int, Contents] = {0: {}}
        """By epoch, and of those that were left behind as well."""
        self.chains: dict[int, list[Segment]] = {0: []}
        """The segments of each epoch that the job may go back to."""
        self.chain: list[Segment] = []
        self.completed_by: dict[int, int] = {}
        self.cut: dict[int, list[Segment]] = {}
        self.subtasks: list[Subtask] = []
        self.old: list[Subtask] = []

    @property
    def is_versioned(self) -> bool:
        return self.protocol == "versioned"

    @property
    def newest(self) -> Contents:
        """The state as of the newest complete epoch."""
        return self.contents[max(self.chains)]

    # ------------------------------------------------------------ attempts

    def restart(self, parallelism: int | None = None) -> None:
        """Fail, and go on with other subtasks from an epoch."""
        self.old = self.subtasks or self.old
        since = self._since()
        self.attempt += self.random.choice((1, 1, 2))
        self.chains = {e: chain for e, chain in self.chains.items() if e <= since}
        self.chain, self.cut = list(self.chains[since]), {}
        wide = parallelism or self.random.randint(1, 4)
        is_anew = self.is_made and since > 0 and self.random.random() < 0.12
        if is_anew:
            self._move_in(since)
        ranges = [range_of(n, wide, GROUPS) for n in range(wide)]
        self.subtasks = [Subtask(self._connect(), self.attempt, groups) for groups in ranges]
        for subtask in self.random.sample(self.subtasks, wide):
            self._begin(subtask, since, is_anew)
        self.is_made = True

    def _since(self) -> int:
        possible = [epoch for epoch in self.chains if epoch >= max(self.floor, self.folded)]
        is_back = self.is_versioned and self.random.random() < 0.4
        return self.random.choice(possible) if is_back else max(self.chains)

    def _move_in(self, since: int) -> None:
        """Have tables made for what is restored. No epoch before can be gone back to in them."""
        self.base = self.contents[since]
        self.kept = self.tables.making
        self.tables = TableSet(self.tables.lineage, self.tables.uid, f"{self.began}a{self.attempt}")
        self.chain, self.chains = [], {since: []}
        self.floor, self.pointer, self.folded, self.numbers = since, 0, 0, 0

    def _begin(self, subtask: Subtask, since: int, is_anew: bool) -> None:
        self._settle(subtask, since)
        is_known = self.is_made and not is_anew
        subtask.pair.fence(self.tables, subtask.attempt, STATES, is_known=is_known)
        if is_anew:
            self._load(subtask)
        else:
            self._go_on(subtask, since)

    def _settle(self, subtask: Subtask, since: int) -> None:
        pair = subtask.pair
        for vote in sorted(pair.votes(self.tables), key=repr):
            if vote.attempt >= subtask.attempt:
                continue
            is_of_it = vote.attempt == self.completed_by.get(since) and vote.epoch <= since
            if is_of_it and vote.tables == self.tables:
                pair.commit_vote(vote)
            else:
                pair.roll_back_vote(vote)

    def _load(self, subtask: Subtask) -> None:
        if subtask.groups.first == 0:
            keep = [self.tables.making, self.began, self.kept]
            subtask.pair.sweep(self.tables, subtask.attempt, keep)
        changes = as_loaded(self.base, subtask.groups)
        subtask.pair.load(self.tables, subtask.attempt, changes)

    def _go_on(self, subtask: Subtask, since: int) -> None:
        pair, groups = subtask.pair, subtask.groups
        rows = ledger_of(pair, self.tables, groups)
        ids = {segment.id for segment in self.chain}
        # What was brought late has the epoch of the attempt that did it: it is brought again.
        late = max(since, self.folded)
        strange = [row for row in rows if row.segment not in ids or row.epoch > late]
        pair.abandoned(self.tables)
        if strange:
            assert self.is_versioned, f"{strange} came to nothing, and is in the database"
            pair.discard(self.tables, subtask.attempt, groups, strange, since)
            self.pointer = min(self.pointer, since)
        rows = [row for row in rows if row not in strange]
        subtask.number = max((self.numbers, *(row.number for row in rows)))
        epoch = max((since, *(row.epoch for row in rows)))
        for segment in self.chain:
            mine = KeyGroupRange(
                max(groups.first, segment.groups.first), min(groups.last, segment.groups.last)
            )
            based = [Applied("", 0, 0, KeyGroupRange(g, g)) for g in segment.based]
            covered = [row for row in rows if row.segment == segment.id]
            for run in uncovered(mine, [*covered, *based]):
                subtask.take(segment, run, epoch)
        if groups.first == 0:
            pair.sweep(self.tables, subtask.attempt, [self.tables.making])

    # ------------------------------------------------------------ epochs

    def write(self) -> None:
        subtask = self.random.choice(self.subtasks)
        if not subtask.groups:
            return
        self.segments += 1
        open_epoch = self.epoch + 1
        pieces = drawn(self.random, subtask.groups)
        segment = Segment(f"s{self.segments}", open_epoch, subtask.groups, pieces)
        self.chain.append(segment)
        subtask.take(segment, subtask.groups, open_epoch)

    def cut_epoch(self) -> None:
        self.epoch += 1
        self.cut[self.epoch] = list(self.chain)

    def complete_epoch(self) -> None:
        """The newest that was cut is complete."""
        if self.cut:
            epoch, chain = self.cut.popitem()
            self.cut.clear()
            self.chains[epoch] = chain
            self.contents[epoch] = after(self.base, chain)
            self.completed_by[epoch] = self.attempt
            self._settle_own(epoch)

    def give_up_epoch(self) -> None:
        """Its segments are part of the next."""
        if self.cut:
            epoch, _ = self.cut.popitem()
            for subtask in self.subtasks:
                if subtask.vote is not None and subtask.vote.epoch == epoch:
                    subtask.pair.roll_back_vote(subtask.vote)
                    subtask.vote = None

    def _settle_own(self, epoch: int) -> None:
        for subtask in self.subtasks:
            vote = subtask.vote
            if vote is not None and self.random.random() < 0.8:
                subtask.vote = None
                for _ in range(self.random.choice((1, 1, 2))):
                    subtask.pair.commit_vote(vote)
                left = subtask.waiting
                subtask.waiting = [each for each in left if each.epoch > vote.epoch]

    # ------------------------------------------------------------ the database

    def bring(self) -> None:
        """A subtask applies the next segment; again, where the answer was lost."""
        last = self.epoch if self.is_versioned else max(self.chains)
        due = [s for s in self.subtasks if s.vote is None and not s.has_all_of(last)]
        if not due:
            return
        subtask = self.random.choice(due)
        each = subtask.waiting[0]
        forget = self._forgettable(subtask)
        changes = each.segment.changes(each.number, each.groups)
        for _ in range(self.random.choice((1, 1, 1, 2))):
            subtask.pair.apply(self.tables, subtask.attempt, each.row, changes, forget)
        subtask.waiting.pop(0)
        if forget != NOTHING:
            self._forgotten(subtask, each.groups, forget)

    def _forgettable(self, subtask: Subtask) -> int:
        """An epoch that a base stands for: nobody goes back behind it."""
        epoch = max(self.chains)
        lowest = min((e for e in self.chains if e >= self.folded), default=0)
        if self.is_versioned:
            epoch = lowest
        is_whole = epoch > 0 and all(each.has_all_of(epoch) for each in self.subtasks)
        return epoch if is_whole and self.random.random() < 0.4 else NOTHING

    def _forgotten(self, subtask: Subtask, groups: KeyGroupRange, epoch: int) -> None:
        self.floor = max(self.floor, epoch)
        self.numbers = max(self.numbers, *(each.number for each in self.subtasks))
        for segment in self.chains[epoch]:
            segment.based.update(group for group in segment.groups if group in groups)

    def vote(self) -> None:
        """A subtask prepares all that the database lacks up to an epoch."""
        subtask = self.random.choice(self.subtasks)
        done = max(self.chains)
        if self.protocol != "prepared" or not self.cut or subtask.vote is not None:
            return
        epoch = max(self.cut)
        due = [each for each in subtask.waiting if each.epoch <= epoch]
        if not due or any(each.epoch <= done for each in due):
            return
        vote = Vote(self.tables, subtask.attempt, subtask.groups, epoch)
        parts = [Part(e.row, e.segment.changes(e.number, e.groups)) for e in due]
        for _ in range(self.random.choice((1, 1, 2))):
            subtask.pair.prepare(vote, parts, NOTHING)
        subtask.vote = vote

    def say(self) -> None:
        """A subtask says that it has brought all of the newest complete epoch."""
        epoch = max(self.chains)
        ready = [s for s in self.subtasks if s.groups and s.said < epoch and s.has_all_of(epoch)]
        if self.is_versioned and ready:
            subtask = self.random.choice(ready)
            said = (self.tables, subtask.attempt, subtask.groups, GROUPS, epoch)
            self.pointer = subtask.pair.complete(*said)
            subtask.said = epoch if self.random.random() < 0.9 else 0

    def fold(self) -> None:
        """A part of a subtask's deltas goes into the base, behind what others look at."""
        subtask = self.random.choice(self.subtasks)
        possible = [e for e in self.chains if self.folded <= e <= self.pointer and e > 0]
        if not self.is_versioned or not subtask.groups or not possible:
            return
        epoch = self.random.choice(possible[:3])
        first = self.random.choice(list(subtask.groups))
        last = self.random.randint(first, subtask.groups.last)
        subtask.pair.fold(self.tables, subtask.attempt, KeyGroupRange(first, last), epoch)
        self.folded = max(self.folded, epoch)

    # ------------------------------------------------------------ reads

    def look(self) -> None:
        """A subtask reads what it may ask for."""
        random, tables = self.random, self.tables
        subtask = random.choice(self.subtasks)
        state = random.choice(STATES).name
        groups = list(EVERY)
        keys = [k_of(random.choice(groups), random.choice(KEYS)) for _ in range(4)]
        subtask.pair.read(tables, subtask.attempt, state, keys)
        entry = random.choice(MAP_KEYS).encode()
        subtask.pair.read_entry(tables, subtask.attempt, state, keys[0], entry)
        up_to = random.choice((None, subtask.number, random.randint(0, subtask.number)))
        subtask.pair.scan(tables, state, subtask.groups, up_to)
        subtask.pair.applied(tables, EVERY)
        subtask.pair.folded(tables)
        subtask.pair.abandoned(tables)
        subtask.pair.votes(tables)

    def ask_for_others(self) -> None:
        """A later attempt names tables that are not there. It is refused, and not admitted."""
        subtask = self.random.choice(self.subtasks)
        gone = TableSet(self.tables.lineage, self.tables.uid, "gone")
        with suppress(RestoreError, FenceHeldError):
            subtask.pair.fence(gone, subtask.attempt + 1, STATES, is_known=True)
            raise AssertionError("it was admitted")
        subtask.pair.check_fence(self.tables, subtask.attempt)

    def haunt(self) -> None:
        """A subtask of an attempt before does what it was about to do."""
        old = self.random.choice(self.old)
        who = (self.tables, old.attempt)
        row = Applied("late", self.epoch + 1, 1000, EVERY)
        given: dict[str, tuple[Any, ...]] = {
            "check_fence": who,
            "read": (*who, "note", [k_of(0, "a")]),
            "read_entry": (*who, "counts", k_of(0, "a"), b"x"),
            "apply": (*who, row, [], NOTHING),
            "load": (*who, []),
            "sweep": (*who, []),
            "prepare": (Vote(*who, EVERY, self.epoch), [], NOTHING),
        }
        if self.is_versioned:
            given |= {
                "fold": (*who, EVERY, self.epoch),
                "complete": (*who, EVERY, GROUPS, self.epoch),
                "discard": (*who, EVERY, [row], 0),
            }
        call = self.random.choice(list(given))
        getattr(old.pair, call)(*given[call])
