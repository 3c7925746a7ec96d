"""From PySpark's functions to what an operator calls, checked while the graph is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mainstay.errors import GraphError
from mainstay.runtime.operators.group_function import GroupFunction
from mainstay.runtime.own_states import FIRED
from mainstay.spark.processors import time_modes
from mainstay.spark.processors.declaring import declared_by
from mainstay.spark.processors.processor import ProcessorFunction, ProcessorShape, RowProcessor
from mainstay.spark.processors.settings import current_settings
from mainstay.state.info import StateInfo
from mainstay.state.timer_handles import EVENT_TIME


@dataclass(frozen=True, slots=True)
class Made:
    """A function of an operator, the states that it needs, and the clock of its timers."""

    function: GroupFunction
    states: tuple[StateInfo, ...]
    domain: str | None
    given_up: tuple[str, ...] = ()


def processor_function(
    processor: Any,
    output: pa.Schema,
    *,
    time_mode: Any,
    output_mode: Any,
    in_pandas: bool,
    where: str,
) -> Made:
    """A ``StatefulProcessor`` as what an operator calls."""
    check_processor(processor, where)
    mode = time_modes.checked_time_mode(time_mode, where)
    time_modes.check_output_mode(output_mode, where)
    declared = declared_by(processor, mode, where)
    shape = ProcessorShape(declared, output, mode, current_settings())
    function = (
        _pandas_kind(where)(processor, shape) if in_pandas else RowProcessor(processor, shape)
    )
    states = (*declared.states, *time_modes.STATES[mode])
    return Made(function, states, time_modes.DOMAINS[mode], declared.given_up)


def group_state_function(
    function: Any,
    output: pa.Schema,
    state: pa.Schema,
    *,
    timeout: Any,
    output_mode: Any,
    where: str,
) -> Made:
    """A function of ``applyInPandasWithState`` as what an operator calls."""
    _pandas_kind(where)
    from mainstay.spark.processors import group_state

    time_modes.check_output_mode(output_mode, where)
    timeout = group_state.checked_timeout(timeout, where)
    shape = group_state.GroupStateShape(pa.struct(list(state)), output, timeout, current_settings())
    states = shape.states()
    if shape.domain == EVENT_TIME:
        states = (*states, FIRED)
    return Made(group_state.GroupStateFunction(function, shape), states, shape.domain)


def _pandas_kind(where: str) -> type[ProcessorFunction]:
    try:
        from mainstay.spark.processors.pandas_processor import PandasProcessor
    except ImportError as error:
        raise GraphError(
            f"{where}: a function of DataFrames needs pandas ({error}). Install it: pip install "
            "pandas."
        ) from error
    return PandasProcessor


def check_processor(processor: Any, where: str) -> None:
    """An instance of a subclass of Spark's class."""
    if isinstance(processor, type) and issubclass(processor, StatefulProcessor):
        raise GraphError(
            f"{where} got the class {processor.__name__}; give it an instance: "
            f"{processor.__name__}(...)."
        )
    if not isinstance(processor, StatefulProcessor):
        raise GraphError(
            f"{where} needs an instance of a subclass of "
            f"pyspark.sql.streaming.StatefulProcessor, not {processor!r}. For a KeyedProcess call "
            "process(...)."
        )
