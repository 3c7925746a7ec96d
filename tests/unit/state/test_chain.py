"""The chain: what enters stays until something stands for it."""

from __future__ import annotations

import pytest

from mainstay.runtime.spec import Tuning
from mainstay.snapshot.manifest import FileRef, SegmentRef
from mainstay.state.chain import Segment, SegmentChain

MAX_CHAIN = Tuning().max_chain


def ref(id: str, size_bytes: int = 100, first: int = 0, last: int = 127) -> SegmentRef:
    return SegmentRef(id, FileRef(f"state/{id}", size_bytes, "crc32:0"), first, last, 1)


def chain_of(*sizes: int) -> SegmentChain:
    return SegmentChain.restored(tuple(ref(f"s{n}", size) for n, size in enumerate(sizes)))


def ids(chain: SegmentChain) -> list[str]:
    return [segment.id for segment in chain.segments]


def begun(chain: SegmentChain, longest: int = MAX_CHAIN) -> tuple[list[str], bool]:
    refs, to_base = chain.begin_compaction(longest)
    return [ref.id for ref in refs], to_base


def test_segments_stand_in_the_order_they_came():
    chain = SegmentChain()
    for id in ("a", "b", "c"):
        chain.add(Segment(id, frozen={"x": {}}))
    assert ids(chain) == ["a", "b", "c"]
    chain.check_invariants()


def test_a_segment_does_not_enter_twice():
    chain = SegmentChain()
    chain.add(Segment("a", frozen={}))
    with pytest.raises(ValueError, match="segment a is in the chain already"):
        chain.add(Segment("a", frozen={}))


def test_a_segment_that_is_durable_no_longer_keeps_its_changes():
    segment = Segment("a", frozen={"x": {1: 2}})
    assert not segment.is_durable
    segment.written(ref("a"))
    assert segment.is_durable
    assert segment.frozen is None


def test_a_short_chain_is_left_alone():
    assert begun(chain_of(*[100] * MAX_CHAIN)) == ([], False)
    assert begun(chain_of(100, 100), longest=2) == ([], False)
    assert begun(SegmentChain(), longest=0) == ([], False)


def test_a_long_chain_of_equals_becomes_a_base():
    chain = chain_of(*[100] * (MAX_CHAIN + 1))
    assert begun(chain) == ([f"s{n}" for n in range(9)], True)


def test_a_large_old_segment_is_not_rewritten_for_small_new_ones():
    assert begun(chain_of(10_000, *[100] * 8)) == ([f"s{n}" for n in range(1, 9)], False)


def test_a_run_reaches_back_as_far_as_it_outweighs_half_of_what_is_older():
    assert begun(chain_of(1000, 601, 100, 100, 100), longest=2)[0] == ["s2", "s3", "s4"]
    assert begun(chain_of(1000, 600, 100, 100, 100), longest=2) == (
        ["s0", "s1", "s2", "s3", "s4"],
        True,
    )


def test_a_chain_in_which_each_outweighs_all_after_it_has_nothing_due():
    assert begun(chain_of(10_000, 1000, 100, 1), longest=2) == ([], False)


def test_only_what_is_durable_is_merged():
    chain = chain_of(*[100] * 4)
    chain.add(Segment("frozen", frozen={}))
    chain.add(Segment("later", ref=ref("later")))
    assert begun(chain, longest=2) == (["s0", "s1", "s2", "s3"], True)
    chain.end_compaction(ref("merged"))
    assert ids(chain) == ["merged", "frozen", "later"]


def test_one_compaction_runs_at_a_time():
    chain = chain_of(*[100] * 9)
    assert begun(chain)[0]
    assert begun(chain) == ([], False)


def test_the_merged_segment_takes_the_place_of_its_run():
    chain = chain_of(10_000, 100, 100, 100)
    assert begun(chain, longest=2)[0] == ["s1", "s2", "s3"]
    chain.add(Segment("meanwhile", frozen={}))
    cut = chain.segments
    chain.end_compaction(ref("merged"))
    assert ids(chain) == ["s0", "merged", "meanwhile"]
    assert [segment.id for segment in cut] == ["s0", "s1", "s2", "s3", "meanwhile"]
    chain.check_invariants()


def test_a_failed_merge_leaves_the_chain_and_may_be_tried_again():
    chain = chain_of(*[100] * 9)
    first = begun(chain)
    chain.cancel_compaction()
    assert len(chain.segments) == 9
    assert begun(chain) == first
    chain.cancel_compaction()
    assert len(chain.segments) == 9
    assert begun(chain) == first


def test_the_bytes_written_stay_a_small_multiple_of_the_bytes_changed():
    """A thousand epochs of equal size: every byte is rewritten a few times, not hundreds."""
    chain, rewritten, longest_seen = chain_of(10_000), 0, 0
    for epoch in range(1000):
        chain.add(Segment(f"e{epoch}", ref=ref(f"e{epoch}", 10)))
        refs, _ = chain.begin_compaction(MAX_CHAIN)
        if refs:
            size = sum(ref.file.size_bytes for ref in refs)
            rewritten += size
            chain.end_compaction(ref(f"c{epoch}", size))
        longest_seen = max(longest_seen, len(chain.segments))
    assert longest_seen <= 2 * MAX_CHAIN
    assert rewritten <= 8 * (10_000 + 1000 * 10)


def test_a_segment_without_changes_or_file_is_lost():
    with pytest.raises(AssertionError, match="a was lost"):
        SegmentChain((Segment("a"),)).check_invariants()


def test_a_file_may_stand_twice_for_different_key_groups_only():
    halves = SegmentChain.restored((ref("a", first=0, last=63), ref("a", first=64, last=127)))
    halves.check_invariants()
    overlapping = SegmentChain.restored((ref("a", first=0, last=64), ref("a", first=64, last=127)))
    with pytest.raises(AssertionError, match="a would be applied twice"):
        overlapping.check_invariants()
