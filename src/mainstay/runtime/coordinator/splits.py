"""What the coordinator knows of one source: which splits it has given out, and to whom.

Its notes are part of every manifest, and a source that never ends gives out splits for years. So a
source says which ids it will never plan again and they are forgotten; of those that remain, all
but the newest are packed, each run of them once.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mainstay.errors import RestoreError
from mainstay.runtime.connector import Json, Split
from mainstay.runtime.own_states import SPLITS
from mainstay.snapshot.manifest import SubtaskState
from mainstay.state.operator import values_in

RUN = 4096
"""How many ids are packed together."""
PLAIN_FORMAT = 1
"""The format of notes that do not say one."""
PACKED_FORMAT = 2


class SplitBook:
    """The splits of one source in one attempt.

    Its notes are captured when an epoch is triggered: a split is in them exactly if the reader
    that got it has it in its state, or has read it to its end, and the source may plan it again.
    """

    def __init__(
        self, parallelism: int, *, bounded: bool, notes: Json | None, plan_again: bool = False
    ) -> None:
        self.bounded = bounded
        # What a source had when the job was started before is not all that it has now, and one that
        # had an end then may have none now.
        self.is_complete = bounded and not plan_again and bool(notes and notes["complete"])
        self._seen = SeenIds(notes)
        self._given = [0] * parallelism

    @property
    def seen(self) -> frozenset[str]:
        return self._seen.ids

    def notes(self) -> Json:
        """What the manifest keeps."""
        return {**self._seen.notes(), "complete": self.is_complete}

    def nothing(self) -> list[tuple[Split, ...]]:
        """No split for anyone."""
        return [() for _ in self._given]

    def new(self, planned: Sequence[Split]) -> dict[str, Split]:
        """Those that were not given out before; one of the others that has changed is refused."""
        for split in planned:
            self._seen.check(split)
        return {split.id: split for split in planned if split.id not in self._seen.ids}

    def assign(self, planned: Sequence[Split]) -> list[tuple[Split, ...]]:
        """Give each new split to the subtask that was given the fewest so far."""
        new = self.new(planned)
        marks = {id: split.mark for id, split in new.items() if split.mark is not None}
        self._seen.add(list(new), marks if self.bounded else {})
        shares: list[list[Split]] = [[] for _ in self._given]
        for split in new.values():
            subtask = self._given.index(min(self._given))
            self._given[subtask] += 1
            shares[subtask].append(split)
        self.is_complete = self.is_complete or self.bounded
        return [tuple(share) for share in shares]

    def forget(self, ids: Collection[str]) -> None:
        """Drop ids that the source will never plan again.

        A reader that is not done with such a split has all of it in its own state, and an older
        epoch has notes of its own: neither needs the id here.
        """
        self._seen.remove(ids)


class SeenIds:
    """A set of ids that is cheap to note down again and again while it grows at its end.

    Few ids are noted as they are. Beyond that, the notes have a format of their own: a version
    that does not know it must not take the newest ids for all of them. Marks are noted beside the
    ids, in the same order; a version that does not know them does without.
    """

    def __init__(self, notes: Json | None) -> None:
        packed, self._newest = _parts(notes)
        marks = dict(notes or {}).get("marks", {})
        texts = marks.get("packed", [None] * len(packed))
        self._runs = [
            _Run(_unpacked(text), text, marked) for text, marked in zip(packed, texts, strict=True)
        ]
        self.ids = frozenset(self._newest).union(*(run.ids for run in self._runs))
        self._marks: dict[str, str] = _beside(self._newest, marks.get("newest", []))
        for run in self._runs:
            if run.marks is not None:
                self._marks |= _beside(run.ids, _unpacked(run.marks))
        self._pack()

    def notes(self) -> Json:
        found: dict[str, Json] = {}
        if self._marks:
            found["marks"] = {"newest": [self._marks.get(id) for id in self._newest]}
        if not self._runs:
            return {"seen": list(self._newest), **found}
        if self._marks:
            found["marks"]["packed"] = [run.marks for run in self._runs]
        packed = [run.text for run in self._runs]
        return {"format": PACKED_FORMAT, "packed": packed, "newest": list(self._newest), **found}

    def check(self, split: Split) -> None:
        """Refuse a split that is known and has changed."""
        before = self._marks.get(split.id)
        if split.id in self.ids and None not in (before, split.mark) and before != split.mark:
            raise RestoreError(
                f"{split.id!r} has changed since it was read: it was {before}, and is "
                f"{split.mark} now. What was read of it is in the state and cannot be taken back. "
                "Put it back as it was and add what is new beside it, or start the job afresh in "
                "another snapshot directory."
            )

    def add(self, ids: Sequence[str], marks: Mapping[str, str] | None = None) -> None:
        if ids:
            self._newest += ids
            self.ids = self.ids.union(ids)
            self._marks |= marks or {}
            self._pack()

    def remove(self, ids: Collection[str]) -> None:
        gone = self.ids.intersection(ids)
        if gone:
            self.ids -= gone
            self._marks = {id: mark for id, mark in self._marks.items() if id not in gone}
            self._newest = [id for id in self._newest if id not in gone]
            thinned = (self._without(run, gone) for run in self._runs)
            self._runs = [run for run in thinned if run.ids]

    def _pack(self) -> None:
        while len(self._newest) >= 2 * RUN:
            oldest, self._newest = self._newest[:RUN], self._newest[RUN:]
            self._runs.append(self._run_of(oldest))

    def _run_of(self, ids: list[str]) -> _Run:
        marks = [self._marks.get(id) for id in ids]
        return _Run(ids, _packed(ids), _packed(marks) if any(marks) else None)

    def _without(self, run: _Run, gone: frozenset[str]) -> _Run:
        if gone.isdisjoint(run.ids):
            return run
        return self._run_of([id for id in run.ids if id not in gone])


@dataclass(frozen=True, slots=True)
class _Run:
    """Ids, and how they and their marks are noted down."""

    ids: list[str]
    text: str
    marks: str | None = None


def seen_in(notes: Json | None) -> frozenset[str]:
    """The ids that the notes in a manifest hold."""
    return SeenIds(notes).ids


def _parts(notes: Json | None) -> tuple[list[str], list[str]]:
    """The packed runs, and the ids that are noted as they are."""
    if not notes:
        return [], []
    found = notes.get("format", PLAIN_FORMAT)
    if found == PLAIN_FORMAT:
        return [], list(notes["seen"])
    if found == PACKED_FORMAT:
        return list(notes["packed"]), list(notes["newest"])
    raise RestoreError(
        f"the snapshot's notes of a source have format {found}; this version of Mainstay reads "
        f"the formats {PLAIN_FORMAT} and {PACKED_FORMAT}. Restore it with the version that wrote "
        "it or a newer one."
    )


def _beside(ids: Sequence[str], marks: Sequence[str | None]) -> dict[str, str]:
    """The marks by their ids; notes that have none are shorter."""
    return {id: mark for id, mark in zip(ids, marks, strict=False) if mark is not None}


def _packed(texts: Sequence[str | None]) -> str:
    return base64.b85encode(zlib.compress(json.dumps(texts).encode())).decode("ascii")


def _unpacked(text: str) -> list[str]:
    texts: list[str] = json.loads(zlib.decompress(base64.b85decode(text)))
    return texts


def unfinished_splits(part: SubtaskState) -> list[dict[str, Json]]:
    """The splits that a subtask had not read to their end, each as ``to_unit`` has it."""
    return [json.loads(unit) for unit in values_in(SPLITS, part.units[SPLITS.name])]
