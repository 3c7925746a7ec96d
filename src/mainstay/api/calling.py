"""Functions that wait for something outside, as ``map_async`` takes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstay.api.checks import check_callable, is_async
from mainstay.errors import GraphError
from mainstay.plan import nodes
from mainstay.quantities import seconds, whole_number
from mainstay.runtime.call_options import CallOptions
from mainstay.runtime.own_states import CALLS
from mainstay.state.info import StateInfo
from mainstay.state.kinds import OPERATOR_LIST
from mainstay.state.values import ValueType


def called_async(
    function: Any,
    schema: pa.Schema,
    capacity: Any,
    timeout: Any,
    ordered: Any,
    retries: Any,
    on_timeout: Any,
    where: str,
) -> tuple[nodes.MapAsync, StateInfo]:
    """What calls a function of the rows of a schema, and the state of the rows in flight."""
    check_callable(function, where, may_await=True)
    whole_number(capacity, "capacity", where=where)
    whole_number(retries, "retries", least=0, where=where)
    if not isinstance(ordered, bool):
        raise GraphError(f"{where}: ordered={ordered!r} must be True or False.")
    if on_timeout is not None:
        if timeout is None:
            raise GraphError(f"{where}: on_timeout= without a timeout. Leave out one of them.")
        check_callable(on_timeout, f"{where}, on_timeout")
    limit_s = None if timeout is None else seconds(timeout, f"{where}: timeout", positive=True)
    options = CallOptions(capacity, limit_s, ordered, retries, on_timeout, is_async(function))
    row = ValueType.of(pa.struct(list(schema)))
    state = StateInfo(CALLS, OPERATOR_LIST, row, redistribute="split")
    return nodes.MapAsync(function, options), state
