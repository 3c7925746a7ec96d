"""The handles of a stream writer's sink, and which of them are still to be committed.

All handles of an epoch are one batch, and the epoch is its id. A writer may take a batch id for
granted in either way: leave a batch alone that it has committed, or put what it is given in the
place of what it had. So a batch must never be committed with a part of its messages. Handles are
dropped by the subtasks one by one when a commit is confirmed, and a snapshot may fall in between.
A handle therefore names the epoch of the one before it: where that one is missing, it was dropped,
and every batch up to it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from mainstay.errors import SinkError, named

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Handle:
    """The commit messages of one subtask and one epoch; ``previous`` is its epoch before that,
    None for the first of an attempt. There is a handle for every epoch, with messages or not."""

    attempt: int
    subtask: int
    epoch: int
    previous: int | None
    messages: bytes
    """Pickled, because they are of classes of the data source; empty for none."""

    def to_bytes(self) -> bytes:
        about = [FORMAT, self.attempt, self.subtask, self.epoch, self.previous]
        return json.dumps(about).encode() + b"\n" + self.messages

    @staticmethod
    def from_bytes(data: bytes) -> Handle:
        about, _, messages = data.partition(b"\n")
        found, attempt, subtask, epoch, previous = json.loads(about)
        if found != FORMAT:
            raise SinkError(
                f"a handle of a stream writer has format {found}; this version of Mainstay reads "
                f"format {FORMAT}. Commit it with the version that wrote it or a newer one."
            )
        return Handle(attempt, subtask, epoch, previous, messages)


def packed(messages: list[Any], place: str) -> bytes:
    """Commit messages as a handle holds them."""
    try:
        return cloudpickle.dumps(messages) if messages else b""
    except Exception as error:
        raise SinkError(
            f"{place}: the commit messages {messages!r} cannot be pickled: {error}. Keep "
            "connections and locks out of them."
        ) from error


def unpacked(handle: Handle, place: str) -> list[Any]:
    try:
        return list(cloudpickle.loads(handle.messages)) if handle.messages else []
    except Exception as error:
        raise SinkError(
            f"{place}: the commit messages of epoch {handle.epoch} cannot be unpickled: "
            f"{named(error)}. Their class has to be where it was when they were "
            "written."
        ) from error


def batches_to_commit(handles: Iterable[Handle]) -> dict[int, list[Handle]]:
    """The handles of each batch that may not be committed yet, by batch id and in order."""
    found = list(handles)
    present = {(handle.attempt, handle.subtask, handle.epoch) for handle in found}
    dropped = [
        handle.previous
        for handle in found
        if handle.previous is not None
        and (handle.attempt, handle.subtask, handle.previous) not in present
    ]
    committed = max(dropped, default=0)
    batches: dict[int, list[Handle]] = {}
    for handle in sorted(found, key=lambda each: (each.epoch, each.subtask)):
        if handle.epoch > committed:
            batches.setdefault(handle.epoch, []).append(handle)
    return batches
