"""Laws of segments and chains: whatever happens to them, what is restored is what was there."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.runtime.deployment import RestoredState
from mainstay.runtime.operators.base import Operator
from mainstay.runtime.spec import KeySpec, OperatorSpec
from mainstay.runtime.worker.member import Member
from mainstay.snapshot.manifest import SegmentRef
from mainstay.snapshot.memory_storage import MemoryStorage
from mainstay.state.declaration import ListState, MapState, ValueState
from mainstay.state.hashing import groups_of
from mainstay.state.keygroups import range_of, subtask_of
from mainstay.state.values import ValueType
from tests.key_hashes import hash_keys
from tests.members import keyed, opened
from tests.searching import examples

M = 8
KEYS = [None, 0, 1, 2, 3, 4, 5]
KEY = ValueType.of("long")
GROUP = dict(zip(KEYS, groups_of(hash_keys(KEYS, KEY.arrow), M).tolist(), strict=True))
STATES = {
    "value": ValueState("long"),
    "items": ListState("long"),
    "by_page": MapState("long", "long"),
}
EpochParts = tuple[tuple[SegmentRef, ...], ...]
Contents = dict[str, dict[Any, Any]]


@dataclass(frozen=True)
class Nothing:
    def build(self) -> Operator:
        return Operator()


SPEC = OperatorSpec(
    "chains",
    "chains",
    Nothing(),
    tuple(replace(state.info(), name=name) for name, state in STATES.items()),
    KeySpec((0,), KEY, ("key",)),
)


class Job:
    """The subtasks of one keyed operator, and the same state in plain dictionaries."""

    def __init__(self, parallelism: int) -> None:
        self.storage = MemoryStorage()
        self.attempt = self.epoch = self.compactions = 0
        self.model: Contents = {name: {} for name in STATES}
        self.complete: tuple[EpochParts, Contents] = ((), copy.deepcopy(self.model))
        self.members = self.opened((), parallelism)

    def opened(self, epoch: EpochParts, parallelism: int) -> list[Member]:
        self.attempt += 1
        members = []
        for subtask in range(parallelism):
            groups = range_of(subtask, parallelism, M)
            member = opened(SPEC, subtask, parallelism, self.attempt, M, groups)
            refs = [ref.clipped(groups.first, groups.last) for chain in epoch for ref in chain]
            chain = tuple(ref for ref in refs if ref is not None)
            restored = member.read(self.storage, RestoredState(chain))
            deque(keyed(member).apply(restored), maxlen=0)
            keyed(member).chain.check_invariants()
            members.append(member)
        return members

    # ------------------------------------------------------------ what may happen

    def write(self, key: Any, name: str, method: str, *arguments: Any) -> None:
        member = self.members[subtask_of(GROUP[key], len(self.members), M)]
        member.row_context.current_key = key
        getattr(keyed(member).backend.handles[name], method)(*arguments)
        do_to_model(self.model[name], key, name, method, *arguments)

    def freeze(self) -> None:
        """An epoch that is begun and never stored: it is aborted, or the next one comes first."""
        self.epoch += 1
        for member in self.members:
            member.freeze(self.epoch)

    def snapshot(self) -> None:
        self.epoch += 1
        cuts = [member.freeze(self.epoch) for member in self.members]
        parts = []
        for member, cut in zip(self.members, cuts, strict=True):
            for segment in cut.segments:
                if not segment.is_durable:
                    (tables,) = deque(keyed(member).encode(segment), maxlen=1)
                    segment.written(keyed(member).write(self.storage, segment.id, tables))
            keyed(member).chain.check_invariants()
            parts.append(member.acknowledged(cut).chain)
        self.complete = tuple(parts), copy.deepcopy(self.model)

    def compact(self, which: int, start: int, length: int) -> None:
        """Merge any run of durable segments; to a base whenever it is the oldest run."""
        member = self.members[which % len(self.members)]
        segments = keyed(member).chain.segments
        start %= len(segments) + 1
        run = segments[start : start + length]
        if not run or not all(segment.is_durable for segment in run):
            return
        self.compactions += 1
        keyed(member).chain.compacting = run
        refs = tuple(segment.ref for segment in run if segment.ref is not None)
        id = f"merged-{self.compactions}"
        keyed(member).chain.end_compaction(keyed(member).merged(self.storage, refs, id, start == 0))
        keyed(member).chain.check_invariants()

    def crash(self) -> None:
        epoch, model = self.complete
        self.members = self.opened(epoch, len(self.members))
        self.model = copy.deepcopy(model)

    def rescale(self, parallelism: int) -> None:
        self.snapshot()
        self.members = self.opened(self.complete[0], parallelism)

    # ------------------------------------------------------------ what must hold

    def check(self) -> None:
        assert contents(self.members) == self.model
        self.snapshot()
        assert contents(self.opened(self.complete[0], len(self.members))) == self.model


def do_to_model(state: dict[Any, Any], key: Any, name: str, method: str, *arguments: Any) -> None:
    if method == "clear" or arguments == ([],):
        state.pop(key, None)
    elif name == "by_page":
        entries = state.setdefault(key, {})
        if method == "put":
            entries[arguments[0]] = arguments[1]
        else:
            entries.pop(arguments[0], None)
        if not entries:
            del state[key]
    elif method == "update":
        state[key] = copy.copy(arguments[0])
    else:
        state.setdefault(key, []).append(arguments[0])


def contents(members: list[Member]) -> Contents:
    """What all subtasks hold; each key with one of them only, the one that owns it."""
    found: Contents = {name: {} for name in STATES}
    for member in members:
        for name in STATES:
            for key, kept in keyed(member).backend.entries(name):
                assert GROUP[key] in member.owner.groups
                assert key not in found[name]
                found[name][key] = copy.copy(kept)
    return found


keys, small = st.sampled_from(KEYS), st.integers(0, 3)
writes = st.one_of(
    st.tuples(st.just("write"), keys, st.just("value"), st.just("update"), small),
    st.tuples(st.just("write"), keys, st.just("items"), st.just("add"), small),
    st.tuples(
        st.just("write"), keys, st.just("items"), st.just("update"), st.lists(small, max_size=2)
    ),
    st.tuples(st.just("write"), keys, st.just("by_page"), st.just("put"), small, small),
    st.tuples(st.just("write"), keys, st.just("by_page"), st.just("put"), small, st.none()),
    st.tuples(st.just("write"), keys, st.just("by_page"), st.just("remove"), small),
    st.tuples(st.just("write"), keys, st.sampled_from(sorted(STATES)), st.just("clear")),
)
parallelisms = st.integers(1, 5)
events = st.one_of(
    st.tuples(st.just("freeze")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("compact"), small, small, st.integers(1, 4)),
    st.tuples(st.just("compact"), small, st.just(0), st.integers(2, 9)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("rescale"), parallelisms),
)
histories = st.lists(st.one_of(writes, writes, writes, events), max_size=60)


def lived(history: list[tuple[Any, ...]], parallelism: int) -> Job:
    job = Job(parallelism)
    for name, *arguments in history:
        getattr(job, name)(*arguments)
    return job


@settings(max_examples=examples(150), deadline=None)
@given(histories, parallelisms)
def test_what_is_restored_is_what_was_there(history, parallelism):
    lived(history, parallelism).check()


@settings(max_examples=examples(60), deadline=None)
@given(histories, parallelisms, parallelisms)
def test_rescaling_and_rescaling_back_is_the_identity(history, old, new):
    job = lived(history, old)
    job.rescale(old)
    before = [contents([member]) for member in job.members]
    job.rescale(new)
    assert contents(job.members) == job.model
    job.rescale(old)
    assert [contents([member]) for member in job.members] == before


@settings(max_examples=examples(60), deadline=None)
@given(histories, parallelisms)
def test_the_compactions_a_chain_asks_for_change_nothing_and_end(history, parallelism):
    job = lived(history, parallelism)
    job.snapshot()
    for member in job.members:
        for number in range(len(keyed(member).chain.segments) + 1):
            refs, to_base = keyed(member).chain.begin_compaction(1)
            if not refs:
                break
            assert len(refs) >= 2
            assert to_base == (refs[0] == keyed(member).chain.segments[0].ref)
            merged = keyed(member).merged(job.storage, refs, f"asked-{number}", to_base)
            keyed(member).chain.end_compaction(merged)
        else:
            raise AssertionError("the chain asks for compactions without end")
    job.check()
