"""Mainstay: managed state and pipelined consistent snapshots for PySpark programs."""

from mainstay import connectors, errors, spark
from mainstay.api.aggregates import collect, count, first, last, max, mean, min, sum
from mainstay.api.availability import HighAvailability, ZooKeeper
from mainstay.api.backends import RocksDB
from mainstay.api.environment import Environment
from mainstay.api.expressions import Column, col, lit
from mainstay.api.functions import CoKeyedProcess, KeyedBatchProcess, KeyedProcess, Process
from mainstay.api.job import Job
from mainstay.api.keyed_stream import KeyedStream
from mainstay.api.options import Restart, Snapshots
from mainstay.api.stream import Stream
from mainstay.api.watermark import Watermark
from mainstay.connectors.postgres.states.settings import Postgres
from mainstay.inspect.answers import Answer, Moment
from mainstay.inspect.connection import Connection, connect
from mainstay.runtime.coordinator.epochs import EpochRecord
from mainstay.runtime.coordinator.slowness import Silent
from mainstay.runtime.failure_record import FailureRecord
from mainstay.runtime.messages import Figures, TaskMetrics
from mainstay.runtime.operators.keyed import GroupedBatch
from mainstay.runtime.record_list import RecordList
from mainstay.runtime.row_context import ProcessContext
from mainstay.runtime.status import AttemptRecord, EpochStatus, Problem, Recovery
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
    "Answer",
    "AttemptRecord",
    "CoKeyedProcess",
    "Column",
    "Connection",
    "Environment",
    "EpochRecord",
    "EpochStatus",
    "FailureRecord",
    "Figures",
    "GroupedBatch",
    "HighAvailability",
    "Job",
    "KeyedBatchProcess",
    "KeyedProcess",
    "KeyedStream",
    "ListState",
    "MapState",
    "Migration",
    "Moment",
    "OperatorListState",
    "Postgres",
    "Problem",
    "Process",
    "ProcessContext",
    "RecordList",
    "Recovery",
    "ReducingState",
    "Restart",
    "RocksDB",
    "Silent",
    "Snapshots",
    "Stream",
    "TaskMetrics",
    "Ttl",
    "ValueState",
    "Watermark",
    "ZooKeeper",
    "col",
    "collect",
    "connect",
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
