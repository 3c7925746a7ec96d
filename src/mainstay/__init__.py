"""Mainstay: managed state and pipelined consistent snapshots for PySpark programs."""

from mainstay import connectors, errors, spark
from mainstay.api.aggregates import collect, count, first, last, max, mean, min, sum
from mainstay.api.backends import RocksDB
from mainstay.api.environment import Environment
from mainstay.api.expressions import Column, col, lit
from mainstay.api.functions import CoKeyedProcess, KeyedBatchProcess, KeyedProcess, Process
from mainstay.api.job import Job
from mainstay.api.options import Restart, Snapshots
from mainstay.api.stream import KeyedStream, Stream
from mainstay.api.watermark import Watermark
from mainstay.runtime.epochs import EpochRecord
from mainstay.runtime.messages import Figures, TaskMetrics
from mainstay.runtime.status import AttemptRecord, Problem, Recovery
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    OperatorListState,
    ReducingState,
    ValueState,
)
from mainstay.state.migration import Migration
from mainstay.state.ttl import Ttl

__version__ = "0.1.0"

__all__ = [
    "AggregatingState",
    "AttemptRecord",
    "CoKeyedProcess",
    "Column",
    "Environment",
    "EpochRecord",
    "Figures",
    "Job",
    "KeyedBatchProcess",
    "KeyedProcess",
    "KeyedStream",
    "ListState",
    "MapState",
    "Migration",
    "OperatorListState",
    "Problem",
    "Process",
    "Recovery",
    "ReducingState",
    "Restart",
    "RocksDB",
    "Snapshots",
    "Stream",
    "TaskMetrics",
    "Ttl",
    "ValueState",
    "Watermark",
    "col",
    "collect",
    "connectors",
    "count",
    "errors",
    "first",
    "last",
    "lit",
    "max",
    "mean",
    "min",
    "spark",
    "sum",
]
