"""Mainstay: managed state and pipelined consistent snapshots for PySpark programs."""

from mainstay import connectors, errors
from mainstay.api.environment import Environment
from mainstay.api.functions import CoKeyedProcess, KeyedBatchProcess, KeyedProcess, Process
from mainstay.api.job import Job
from mainstay.api.options import Restart, Snapshots
from mainstay.api.stream import KeyedStream, Stream
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    OperatorListState,
    ReducingState,
    ValueState,
)

__version__ = "0.1.0"

__all__ = [
    "AggregatingState",
    "CoKeyedProcess",
    "Environment",
    "Job",
    "KeyedBatchProcess",
    "KeyedProcess",
    "KeyedStream",
    "ListState",
    "MapState",
    "OperatorListState",
    "Process",
    "ReducingState",
    "Restart",
    "Snapshots",
    "Stream",
    "ValueState",
    "connectors",
    "errors",
]
