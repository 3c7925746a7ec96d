"""A subtask's chain: the ordered segments that make up its keyed state.

A segment enters when it is frozen and is never lost: an epoch that is aborted leaves its segment
in the chain, and the next epoch's chain holds it too. Each segment has an id of its own and is
written once; only compaction replaces ids, by one that stands for all of them.

    >>> chain = SegmentChain()
    >>> chain.add(Segment("totals-s0-a1-e1", frozen={"alice": 3}))
    >>> chain.add(Segment("totals-s0-a1-e2", frozen={"bob": 1}))    # whatever becomes of epoch 1
    >>> [segment.id for segment in chain.segments]
    ['totals-s0-a1-e1', 'totals-s0-a1-e2']
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from mainstay.snapshot.manifest import SegmentRef


@dataclass(slots=True, eq=False)
class Segment:
    """One segment: its changes until it is durable, its file from then on."""

    id: str
    frozen: Any = None
    ref: SegmentRef | None = None

    @property
    def is_durable(self) -> bool:
        return self.ref is not None

    def written(self, ref: SegmentRef) -> None:
        """The file exists: the changes need not be kept in memory any longer."""
        self.ref = ref
        self.frozen = None


@dataclass(slots=True)
class SegmentChain:
    """The segments of one operator in one subtask, oldest first."""

    segments: tuple[Segment, ...] = ()
    compacting: tuple[Segment, ...] = field(default=())

    @staticmethod
    def restored(refs: tuple[SegmentRef, ...]) -> SegmentChain:
        return SegmentChain(tuple(Segment(ref.id, ref=ref) for ref in refs))

    def add(self, segment: Segment) -> None:
        if any(segment.id == other.id for other in self.segments):
            raise ValueError(f"segment {segment.id} is in the chain already")
        self.segments = (*self.segments, segment)

    def begin_compaction(
        self, longest: int, held: Collection[str] = (), *, is_whole: bool = False
    ) -> tuple[tuple[SegmentRef, ...], bool]:
        """Choose the run of durable segments to merge, and whether it makes a base.

        A chain longer than ``longest`` is due. The run is its newest segment and, going back, each
        that is at most twice the size of all after it: a byte is rewritten only where the run
        grows by half, so the bytes written stay a small multiple of the bytes changed, and what is
        left grows so fast from one segment to the next older that the chain stays short. (Where
        the newest is small by chance, the run goes on until twice ``longest`` are left.) A run
        that reaches the oldest segment makes a base. Empty when nothing is due.

        A base of a backend's own is not merged with others, so a run that reaches one goes on to
        the oldest segment, as every run does with ``is_whole``. ``held`` segments and all after
        them are left alone.
        """
        durable = self._durable_prefix(held)
        if self.compacting or len(durable) <= longest:
            return (), False
        refs = [segment.ref for segment in durable if segment.ref is not None]
        start, run_bytes = len(refs) - 1, refs[-1].size_bytes
        while start > 0 and (refs[start - 1].size_bytes <= 2 * run_bytes or start > 2 * longest):
            start -= 1
            run_bytes += refs[start].size_bytes
        if is_whole or any(ref.is_backends_own for ref in refs[start:]):
            start = 0
        if len(refs) - start < 2:
            return (), False
        self.compacting = durable[start:]
        return tuple(refs[start:]), start == 0

    def _durable_prefix(self, held: Collection[str] = ()) -> tuple[Segment, ...]:
        for position, segment in enumerate(self.segments):
            if not segment.is_durable or segment.id in held:
                return self.segments[:position]
        return self.segments

    def end_compaction(self, ref: SegmentRef) -> None:
        """Put the merged segment in the place of the run."""
        run, self.compacting = self.compacting, ()
        start = self.segments.index(run[0])
        after = self.segments[start + len(run) :]
        self.segments = (*self.segments[:start], Segment(ref.id, ref=ref), *after)

    def cancel_compaction(self) -> None:
        """The merge failed; the run stays as it is and may be merged later."""
        self.compacting = ()

    def check_invariants(self) -> None:
        listed: dict[str, list[Segment]] = {}
        for segment in self.segments:
            assert segment.is_durable or segment.frozen is not None, f"{segment.id} was lost"
            # After a rescale one file may be listed twice, for different key-groups.
            same = listed.setdefault(segment.id, [])
            assert not any(_overlap(segment, other) for other in same), (
                f"{segment.id} would be applied twice"
            )
            same.append(segment)


def _overlap(one: Segment, other: Segment) -> bool:
    """Whether two entries of one segment have key-groups in common."""
    return (
        one.ref is None
        or other.ref is None
        or one.ref.clipped(other.ref.first_group, other.ref.last_group) is not None
    )
