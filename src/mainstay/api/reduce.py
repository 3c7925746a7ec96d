"""The running reduce: each key's rows folded into one, which is emitted after every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from mainstay.api.functions import KeyedProcess
from mainstay.errors import StateTypeError
from mainstay.runtime.row_context import ProcessContext
from mainstay.schema.transpose import shown
from mainstay.state.declaration import ValueState
from mainstay.state.info import StateInfo
from mainstay.state.kinds import VALUE
from mainstay.state.values import ValueType

STATE = "reduced"


class RunningReduce(KeyedProcess):
    """Folds with a function of two rows. Its state has the type of the stream's rows."""

    reduced: ValueState

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def process(self, row: Any, ctx: ProcessContext) -> Any:
        before = self.reduced.get()
        after = row if before is None else self._function(before, row)
        with returned(after, ctx, row):
            self.reduced.update(after)
        return self.reduced.get()


@contextmanager
def returned(after: Any, ctx: ProcessContext, row: Any) -> Iterator[None]:
    """Refuse what the function of a reduce has returned, where it is no row like ``row``."""
    if after is None:
        raise StateTypeError(
            f"operator {ctx.uid!r}: the function of reduce() returned None; it must return a "
            "row with the columns of its input."
        )
    lacking = (
        [name for name in row._fields if name not in after] if isinstance(after, Mapping) else []
    )
    if lacking:
        raise StateTypeError(
            f"operator {ctx.uid!r}: the function of reduce() must return a row with the columns of "
            f"its input, and {shown(after)} lacks {', '.join(lacking)}."
        )
    try:
        yield
    except StateTypeError as error:
        raise StateTypeError(
            f"operator {ctx.uid!r}: the function of reduce() must return a row with the "
            f"columns of its input: {error}"
        ) from error


def reduced_state(schema: pa.Schema) -> StateInfo:
    """The state of a running reduce over rows of a schema."""
    return StateInfo(STATE, VALUE, ValueType.of(pa.struct(list(schema))))
