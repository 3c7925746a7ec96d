"""A subtask's chain: the ordered segments that make up its keyed state.

A segment enters when it is frozen and is never lost: an epoch that is aborted leaves its segment
in the chain, and the next epoch's chain holds it too. Each segment has an id of its own and is
written once; only compaction replaces ids, by one that stands for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mainstay.snapshot.manifest import SegmentRef

MAX_CHAIN = 8
"""Durable segments beyond which a chain is compacted."""


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

    def begin_compaction(self) -> tuple[tuple[SegmentRef, ...], bool]:
        """Choose the run of durable segments to merge, and whether it makes a base.

        The base is rewritten only when what came after it has grown to its size, so that the
        bytes written stay a small multiple of the bytes changed. Empty when nothing is due.
        """
        run = self._durable_prefix()
        if self.compacting or len(run) <= MAX_CHAIN:
            return (), False
        refs = [segment.ref for segment in run if segment.ref is not None]
        bases = sum(1 for ref in refs if ref.is_base)
        base_bytes = sum(ref.file.size_bytes for ref in refs[:bases])
        later_bytes = sum(ref.file.size_bytes for ref in refs[bases:])
        to_base = later_bytes >= base_bytes or len(refs) - bases <= 1
        chosen = run if to_base else run[bases:]
        self.compacting = chosen
        return tuple(s.ref for s in chosen if s.ref is not None), to_base

    def _durable_prefix(self) -> tuple[Segment, ...]:
        for position, segment in enumerate(self.segments):
            if not segment.is_durable:
                return self.segments[:position]
        return self.segments

    def end_compaction(self, ref: SegmentRef | None) -> None:
        """Put the merged segment in the place of the run; None when there is nothing to put."""
        run, self.compacting = self.compacting, ()
        if ref is None:
            return
        start = self.segments.index(run[0])
        after = self.segments[start + len(run) :]
        self.segments = (*self.segments[:start], Segment(ref.id, ref=ref), *after)

    def cancel_compaction(self) -> None:
        """The merge failed; the run stays as it is and may be merged later."""
        self.compacting = ()

    def check_invariants(self) -> None:
        for position, segment in enumerate(self.segments):
            assert segment.is_durable or segment.frozen is not None, f"{segment.id} was lost"
            for other in self.segments[:position]:
                # After a rescale one file may be listed twice, for different key-groups.
                assert not _overlap(segment, other), f"{segment.id} would be applied twice"


def _overlap(one: Segment, other: Segment) -> bool:
    if one.id != other.id:
        return False
    return (
        one.ref is None
        or other.ref is None
        or one.ref.clipped(other.ref.first_group, other.ref.last_group) is not None
    )
