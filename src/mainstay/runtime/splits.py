"""What the coordinator knows of one source: which splits it has given out, and to whom.

Its notes are part of every manifest, and a source that never ends gives out splits for years. So a
source says which ids it will never plan again and they are forgotten; of those that remain, all
but the newest are packed, each run of them once.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mainstay.errors import RestoreError
from mainstay.runtime.connector import Json, Split

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

    def __init__(self, parallelism: int, *, bounded: bool, notes: Json | None) -> None:
        self.bounded = bounded
        self.is_complete = bool(notes and notes["complete"])
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

    def assign(self, planned: Sequence[Split]) -> list[tuple[Split, ...]]:
        """Give each new split to the subtask that was given the fewest so far."""
        new = {split.id: split for split in planned if split.id not in self._seen.ids}
        self._seen.add(list(new))
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
    that does not know it must not take the newest ids for all of them.
    """

    def __init__(self, notes: Json | None) -> None:
        packed, self._newest = _parts(notes)
        self._runs = [_Run(_unpacked(text), text) for text in packed]
        self.ids = frozenset(self._newest).union(*(run.ids for run in self._runs))
        self._pack()

    def notes(self) -> Json:
        if not self._runs:
            return {"seen": list(self._newest)}
        packed = [run.text for run in self._runs]
        return {"format": PACKED_FORMAT, "packed": packed, "newest": list(self._newest)}

    def add(self, ids: Sequence[str]) -> None:
        if ids:
            self._newest += ids
            self.ids = self.ids.union(ids)
            self._pack()

    def remove(self, ids: Collection[str]) -> None:
        gone = self.ids.intersection(ids)
        if gone:
            self.ids -= gone
            self._newest = [id for id in self._newest if id not in gone]
            thinned = (run.without(gone) for run in self._runs)
            self._runs = [run for run in thinned if run.ids]

    def _pack(self) -> None:
        while len(self._newest) >= 2 * RUN:
            oldest, self._newest = self._newest[:RUN], self._newest[RUN:]
            self._runs.append(_Run(oldest, _packed(oldest)))


@dataclass(frozen=True, slots=True)
class _Run:
    """Ids, and how they are noted down."""

    ids: list[str]
    text: str

    def without(self, gone: frozenset[str]) -> _Run:
        if gone.isdisjoint(self.ids):
            return self
        rest = [id for id in self.ids if id not in gone]
        return _Run(rest, _packed(rest))


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


def _packed(ids: list[str]) -> str:
    return base64.b85encode(zlib.compress(json.dumps(ids).encode())).decode("ascii")


def _unpacked(text: str) -> list[str]:
    ids: list[str] = json.loads(zlib.decompress(base64.b85decode(text)))
    return ids
