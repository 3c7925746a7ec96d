"""The two ends of a loop: the head, where rows enter it and come back to, and the tail.

Subtask *i* of the tail is on the same worker as subtask *i* of the head and hands it rows
directly. The head takes what came back before anything new, except while an epoch is under way.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.runtime.deferred import Late
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import Operator, OperatorContext
from mainstay.runtime.operators.feedback import Feedback
from mainstay.runtime.own_states import FEEDBACK

MEMORY_BYTES = 64 << 20
"""What the rows that come back take of a worker's memory, for each loop, before they are stored;
twice as much while they are being stored."""


class LoopHead(Operator):
    """Where a loop begins. It ends when its input has ended and no row is left in any loop."""

    def __init__(self, schema: pa.Schema, memory_bytes: int = MEMORY_BYTES) -> None:
        self.feedback = Feedback(schema, memory_bytes)
        self.has_all_input = False
        self.may_end = False
        self._late: Late | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        assert context.files is not None
        self._state = context.lists[FEEDBACK.name]
        self.feedback.open(
            context.background, context.clock, context.files, context.fail, self._state.get()
        )
        # What is restored is in the queue now, and in the log of every epoch that finds it there.
        self._state.clear()

    @property
    def is_done(self) -> bool:
        return self.has_all_input and self.may_end and self.feedback.is_empty

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        self.out(batch)

    def before_marker(self, epoch: Epoch) -> None:
        self._late = self.feedback.open_log(epoch)

    def late(self) -> Late | None:
        return self._late

    def on_abort(self, epoch: Epoch) -> None:
        self.feedback.drop_log(epoch)

    def tick(self, now: float) -> bool:
        return self.feedback.tend(now)

    def deadline(self) -> float | None:
        return self.feedback.deadline()


class LoopTail(Operator):
    """Where rows leave for the head. ``head`` is set before anything is opened.

    With a column of rounds it counts them there, and feeds nothing back that has been around as
    often as it may.
    """

    head: LoopHead

    def __init__(self, round_column: int | None = None, max_rounds: int | None = None) -> None:
        self._column = round_column
        self._most = max_rounds
        self.stopped_rows = 0

    def join_loop(self, head: Operator) -> None:
        assert isinstance(head, LoopHead)
        self.head = head

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        if self._column is not None:
            batch = self._counted(batch, self._column)
        self.head.feedback.arrived(batch)

    def _counted(self, batch: pa.RecordBatch, column: int) -> pa.RecordBatch:
        field = batch.schema.field(column)
        rounds = pc.add(pc.fill_null(batch.column(column), 0), pa.scalar(1, field.type))
        counted = batch.set_column(column, field, rounds)
        if self._most is None:
            return counted
        kept = counted.filter(pc.less_equal(rounds, pa.scalar(self._most, field.type)))
        self.stopped_rows += counted.num_rows - kept.num_rows
        return kept

    def before_marker(self, epoch: Epoch) -> None:
        self.head.feedback.close_log(epoch)
