"""A source that gives rows when it may: it can be shut, given batches, or a pace."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.ours.visits import Visits
from benchmarks.paper.board import Board, Place
from mainstay.connectors import Generate, Polled, Split, SplitReader
from mainstay.connectors.generators import Share

SCHEMA = "key long, amount long, due_ns long"
"""``due_ns`` is when the row was due by the pace of its source, on the clock of the machine; 0
where there was no pace."""
BATCH_ROWS = 1 << 15
LOOK_S = 0.001
"""How often a source that may give nothing looks whether it may again."""


class Gated(Generate):
    """Visits to pages, a split for each subtask, without end."""

    def __init__(self, visits: Visits, place: Place) -> None:
        splits = place.subtasks
        super().__init__(SCHEMA, visits, splits=splits, batch_rows=BATCH_ROWS)
        self._visits = visits
        self._place = place

    def read(self, split: Split, offset: Any) -> SplitReader:
        return GatedReader(self._visits, Share.of(split.data), offset or 0, Board(self._place))


class GatedReader(SplitReader):
    """Reads one split; its offset is the number of rows given.

    What it gave last has been taken when it is polled again, so that is when it says that it has
    seen the gate shut, or has come to the end of a batch.
    """

    def __init__(self, visits: Visits, share: Share, offset: int, board: Board) -> None:
        self._visits = visits
        self._share = share
        self._position = offset
        self._board = board
        self._line = board.splits[share.number]
        self._pace = 0
        self._first = offset
        self._began_ns = 0
        self._interval_ns = 0
        # The end of the batch stays: whatever was read of it before a failure is read again.
        self._line["given"] = self._line["seen_turn"] = self._line["done_batch"] = 0
        self._line["pid"] = os.getpid()

    def poll(self, max_rows: int) -> Polled:
        now = time.monotonic_ns()
        self._keep_pace(now)
        turn = self._board.orders["turn"]
        if turn % 2:
            self._say("seen_turn", turn)
            return Polled(None, self._position, ready_in_s=LOOK_S)
        count = min(max_rows, self._share.left_in_run(self._position), self._allowed(now))
        if count <= 0:
            return Polled(None, self._position, ready_in_s=LOOK_S)
        batch = self._rows(count)
        self._position += count
        self._line["given"] += count
        return Polled(batch, self._position)

    def _keep_pace(self, now: int) -> None:
        """Begin a pace that was asked for, where the split stands."""
        pace = self._board.orders["pace"]
        if pace != self._pace:
            self._pace, self._first, self._began_ns = pace, self._position, now
            self._interval_ns = int(self._board.orders["interval_ns"])

    def _allowed(self, now: int) -> int:
        """How many rows there are for it to give."""
        batch = self._board.orders["batch"]
        if not batch:
            return self._due(now)
        if batch != self._line["batch"]:
            # What is due when a batch begins is in it, and no more.
            rows = self._due(now) if self._interval_ns else self._board.orders["batch_rows"]
            self._line["until"] = self._position + max(rows, 0)
            self._line["batch"] = batch
        left = int(self._line["until"]) - self._position
        if left <= 0:
            self._say("done_batch", batch)
        return min(left, self._due(now))

    def _due(self, now: int) -> int:
        if not self._interval_ns:
            return BATCH_ROWS
        return (now - self._began_ns) // self._interval_ns - (self._position - self._first)

    def _say(self, what: str, number: int) -> None:
        if self._line[what] != number:
            self._line[what] = number
            self._board.ring()

    def _rows(self, count: int) -> pa.RecordBatch:
        visits = self._visits(self._share.id_at(self._position), count)
        due = np.zeros(count, np.int64)
        if self._interval_ns:
            numbers = np.arange(1, count + 1) + (self._position - self._first)
            due = self._began_ns + numbers * self._interval_ns
        names = [*visits.schema.names, "due_ns"]
        return pa.record_batch([*visits.columns, pa.array(due)], names=names)
