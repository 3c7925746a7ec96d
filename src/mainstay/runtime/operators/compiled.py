"""Compiled functions: a ``KeyedProcess`` whose rows are processed by a kernel.

Rows are gathered, and the states of their keys read into arrays. The kernel takes row after row.
Where it traps the function itself is called, with the states as they are before that row, and the
kernel goes on behind it. Until there is a kernel the function is called for all rows.

This is a hot file (benchmarks/compiled.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstay.runtime.compiled.kernels import Kernel
from mainstay.runtime.compiled.lending import (
    LentTimer,
    TimerScratch,
    by_column,
    lending,
    scratch_of,
)
from mainstay.runtime.compiled.program import NOW, Program
from mainstay.runtime.compiled.run import Parts, Run
from mainstay.runtime.messages import Epoch
from mainstay.runtime.operators.base import OperatorContext, user_error
from mainstay.runtime.operators.gathering import GatheringOperator
from mainstay.runtime.operators.keyed import KeyReader, run_rows
from mainstay.runtime.operators.rows import (
    abort_function,
    close_function,
    cut_function,
    notify_function,
    open_function,
)
from mainstay.runtime.operators.taken import Taking
from mainstay.runtime.spec import KeySpec
from mainstay.schema import rows_to_batches
from mainstay.state.backends.contract import Work
from mainstay.state.grouping import Grouper
from mainstay.state.kinds import KINDS


class CompiledRows(GatheringOperator):
    """A function with ``compiled=True``."""

    def __init__(
        self,
        function: Any,
        key: KeySpec,
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        program: Program,
    ) -> None:
        super().__init__()
        self._function = function
        self._reader = KeyReader(key, input_schema)
        self._schema = output_schema
        self._program = program
        self._taking = Taking.of(output_schema)
        self._grouper = Grouper()
        self._kernel: Kernel | None = None
        self._reads_clock = any(constant.path == NOW for constant in program.constants)
        self.lent: list[LentTimer] = []
        """Its timers, in the order in which they are declared."""

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._ctx = context.row_context
        handles = {} if context.keyed is None else context.keyed.handles
        states = [handles[use.name] for use in self._program.states]
        scratches = [scratch_of(state.info) for state in states]
        # The function sees the states of the rows that it is called for, and no others.
        for state, scratch in zip(states, scratches, strict=True):
            info = scratch.info
            handle = KINDS[info.kind.name].handle(info, scratch, self._ctx)
            vars(self._function)[info.name] = handle
            if isinstance(scratch, TimerScratch):
                self.lent.append(LentTimer(state, handle, scratch))
        self._parts = Parts(
            program=self._program,
            states=[by_column(state) for state in states],
            scratches=scratches,
            function=self._function,
            ctx=self._ctx,
            schema=self._schema,
            keys=self._reader.keys,
            interpret=self._interpret,
        )
        open_function(self._function, context, binds=False)
        self._load()

    def _load(self) -> None:
        """Have the kernel made in the background; rows need not wait for it."""
        kernels, program = self.context.kernels, self._program
        if kernels is not None:
            self.context.background.submit(
                lambda: kernels.load(program), self._loaded, self.context.fail
            )

    def _loaded(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def ahead(self, batch: pa.RecordBatch, port: int) -> Work | None:
        if self.context.keyed is None:
            return None
        return self.context.keyed.read_ahead(self._reader.keys(batch))

    def process(self, batch: pa.RecordBatch, port: int) -> None:
        super().process(batch, port)
        if self._kernel is None:
            # Slices are as long as the function is quick; many of them at once would take long.
            self.flush()

    def take(self, batch: pa.RecordBatch) -> None:
        keys = self._reader.column(batch)
        groups = self._grouper.group(keys)
        if groups.codes is None:
            group = np.arange(groups.count)
        else:
            group, keys = groups.codes, keys.take(pa.array(groups.rows))
        run = Run(self._parts, batch, keys, group)
        # A kernel does not know that no time comes any more.
        is_over = any(timer.stored.is_over for timer in self.lent)
        try:
            self._hold_clock()
            run.through(None if is_over else self._kernel)
            emitted = [self._batches(each) for each in run.emitted()]
        except BaseException as error:
            raise user_error(self.context, error, function=self._function.process) from error
        finally:
            self._ctx.held_us = None
            self._ctx.leave()
        run.store()
        for batches in emitted:
            for each in batches:
                self.out(each)

    def _hold_clock(self) -> None:
        """What the kernel is told of the clock is what rows see for which it traps."""
        if self._reads_clock:
            self._ctx.held_us = self._ctx.now_us()

    def _interpret(self, rows: pa.RecordBatch) -> list[Any]:
        """What the function itself gives for some rows."""
        keys, values = self._reader.keys_and_rows(rows)
        try:
            with lending(self.lent):
                return run_rows(self._function.process, self._ctx, keys, values, self._taking)
        finally:
            self._ctx.leave()

    def _batches(self, emitted: pa.RecordBatch | list[Any]) -> list[pa.RecordBatch]:
        if isinstance(emitted, pa.RecordBatch):
            return [emitted]
        where = f"operator {self.context.uid!r}"
        return list(rows_to_batches(emitted, self._schema, where))

    # ------------------------------------------------------------ what happens beside rows

    def before_marker(self, epoch: Epoch) -> None:
        super().before_marker(epoch)
        cut_function(self._function, epoch, self.context)

    def on_complete(self, epoch: Epoch) -> None:
        notify_function(self._function, epoch, self.context)

    def on_abort(self, epoch: Epoch) -> None:
        abort_function(self._function, epoch, self.context)

    def close(self) -> None:
        close_function(self._function, self.context)
