"""Mainstay: managed state and pipelined consistent snapshots for PySpark programs.

Names are loaded when they are asked for: ``import mainstay`` is quick, and a program pays for what
it uses.
"""

from typing import TYPE_CHECKING

from mainstay.lazy import loader

if TYPE_CHECKING:
    from mainstay import connectors, errors, spark
    from mainstay.api.aggregates import (
        collect,
        count,
        count_distinct,
        first,
        last,
        max,
        max_by,
        mean,
        min,
        min_by,
        sum,
        udaf,
    )
    from mainstay.api.availability import HighAvailability, ZooKeeper
    from mainstay.api.backends import RocksDB
    from mainstay.api.environment import Environment
    from mainstay.api.expressions import Column, col, lit
    from mainstay.api.functions import (
        CoKeyedProcess,
        CoProcess,
        KeyedBatchProcess,
        KeyedProcess,
        MultiProcess,
        Process,
        WindowProcess,
    )
    from mainstay.api.intervals import Interval, interval
    from mainstay.api.job import Job
    from mainstay.api.joins import JoinedStream
    from mainstay.api.keyed_stream import KeyedStream
    from mainstay.api.matching import MatchedStream
    from mainstay.api.options import Restart, Snapshots
    from mainstay.api.otlp import Otlp
    from mainstay.api.patterns import Pattern, pattern
    from mainstay.api.stream import Stream
    from mainstay.api.ui import Ui
    from mainstay.api.watermark import Watermark
    from mainstay.api.windowed_stream import WindowedStream
    from mainstay.api.windows import (
        cumulating,
        rows,
        session,
        sliding,
        tumbling,
    )
    from mainstay.client.connecting import connect
    from mainstay.connectors.postgres.states.settings import Postgres
    from mainstay.inspect.answers import Answer, Moment
    from mainstay.inspect.connection import Connection
    from mainstay.runtime.coordinator.epochs import EpochRecord
    from mainstay.runtime.coordinator.slowness import Silent
    from mainstay.runtime.failure_record import FailureRecord
    from mainstay.runtime.messages import Figures, TaskMetrics
    from mainstay.runtime.operators.keyed import GroupedBatch
    from mainstay.runtime.operators.patterns.matched import Match
    from mainstay.runtime.record_list import RecordList
    from mainstay.runtime.row_context import ProcessContext
    from mainstay.runtime.side_output import SideOutput
    from mainstay.runtime.status import AttemptRecord, EpochStatus, Problem, Recovery
    from mainstay.runtime.timers import Timers
    from mainstay.state.broadcast_declaration import BroadcastMapState
    from mainstay.state.declaration import (
        AggregateFunction,
        AggregatingState,
        ListState,
        MapState,
        OperatorListState,
        ReducingState,
        ValueState,
    )
    from mainstay.state.migration import Migration
    from mainstay.state.timer_declaration import Timer
    from mainstay.state.ttl import Ttl

__version__ = "0.1.0"

__all__ = [
    "AggregateFunction",
    "AggregatingState",
    "Answer",
    "AttemptRecord",
    "BroadcastMapState",
    "CoKeyedProcess",
    "CoProcess",
    "Column",
    "Connection",
    "Environment",
    "EpochRecord",
    "EpochStatus",
    "FailureRecord",
    "Figures",
    "GroupedBatch",
    "HighAvailability",
    "Interval",
    "Job",
    "JoinedStream",
    "KeyedBatchProcess",
    "KeyedProcess",
    "KeyedStream",
    "ListState",
    "MapState",
    "Match",
    "MatchedStream",
    "Migration",
    "Moment",
    "MultiProcess",
    "OperatorListState",
    "Otlp",
    "Pattern",
    "Postgres",
    "Problem",
    "Process",
    "ProcessContext",
    "RecordList",
    "Recovery",
    "ReducingState",
    "Restart",
    "RocksDB",
    "SideOutput",
    "Silent",
    "Snapshots",
    "Stream",
    "TaskMetrics",
    "Timer",
    "Timers",
    "Ttl",
    "Ui",
    "ValueState",
    "Watermark",
    "WindowProcess",
    "WindowedStream",
    "ZooKeeper",
    "col",
    "collect",
    "connect",
    "connectors",
    "count",
    "count_distinct",
    "cumulating",
    "errors",
    "first",
    "interval",
    "last",
    "lit",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "pattern",
    "rows",
    "session",
    "sliding",
    "spark",
    "sum",
    "tumbling",
    "udaf",
]

_HOMES = {
    "AggregateFunction": "mainstay.state.declaration",
    "AggregatingState": "mainstay.state.declaration",
    "Answer": "mainstay.inspect.answers",
    "AttemptRecord": "mainstay.runtime.status",
    "BroadcastMapState": "mainstay.state.broadcast_declaration",
    "CoKeyedProcess": "mainstay.api.functions",
    "CoProcess": "mainstay.api.functions",
    "Column": "mainstay.api.expressions",
    "Connection": "mainstay.inspect.connection",
    "Environment": "mainstay.api.environment",
    "EpochRecord": "mainstay.runtime.coordinator.epochs",
    "EpochStatus": "mainstay.runtime.status",
    "FailureRecord": "mainstay.runtime.failure_record",
    "Figures": "mainstay.runtime.messages",
    "GroupedBatch": "mainstay.runtime.operators.keyed",
    "HighAvailability": "mainstay.api.availability",
    "Interval": "mainstay.api.intervals",
    "Job": "mainstay.api.job",
    "JoinedStream": "mainstay.api.joins",
    "KeyedBatchProcess": "mainstay.api.functions",
    "KeyedProcess": "mainstay.api.functions",
    "KeyedStream": "mainstay.api.keyed_stream",
    "ListState": "mainstay.state.declaration",
    "MapState": "mainstay.state.declaration",
    "Match": "mainstay.runtime.operators.patterns.matched",
    "MatchedStream": "mainstay.api.matching",
    "Migration": "mainstay.state.migration",
    "Moment": "mainstay.inspect.answers",
    "MultiProcess": "mainstay.api.functions",
    "OperatorListState": "mainstay.state.declaration",
    "Otlp": "mainstay.api.otlp",
    "Pattern": "mainstay.api.patterns",
    "Postgres": "mainstay.connectors.postgres.states.settings",
    "Problem": "mainstay.runtime.status",
    "Process": "mainstay.api.functions",
    "ProcessContext": "mainstay.runtime.row_context",
    "RecordList": "mainstay.runtime.record_list",
    "Recovery": "mainstay.runtime.status",
    "ReducingState": "mainstay.state.declaration",
    "Restart": "mainstay.api.options",
    "RocksDB": "mainstay.api.backends",
    "SideOutput": "mainstay.runtime.side_output",
    "Silent": "mainstay.runtime.coordinator.slowness",
    "Snapshots": "mainstay.api.options",
    "Stream": "mainstay.api.stream",
    "TaskMetrics": "mainstay.runtime.messages",
    "Timer": "mainstay.state.timer_declaration",
    "Timers": "mainstay.runtime.timers",
    "Ttl": "mainstay.state.ttl",
    "Ui": "mainstay.api.ui",
    "ValueState": "mainstay.state.declaration",
    "Watermark": "mainstay.api.watermark",
    "WindowProcess": "mainstay.api.functions",
    "WindowedStream": "mainstay.api.windowed_stream",
    "ZooKeeper": "mainstay.api.availability",
    "col": "mainstay.api.expressions",
    "collect": "mainstay.api.aggregates",
    "connect": "mainstay.client.connecting",
    "count": "mainstay.api.aggregates",
    "count_distinct": "mainstay.api.aggregates",
    "cumulating": "mainstay.api.windows",
    "first": "mainstay.api.aggregates",
    "interval": "mainstay.api.intervals",
    "last": "mainstay.api.aggregates",
    "lit": "mainstay.api.expressions",
    "max": "mainstay.api.aggregates",
    "max_by": "mainstay.api.aggregates",
    "mean": "mainstay.api.aggregates",
    "min": "mainstay.api.aggregates",
    "min_by": "mainstay.api.aggregates",
    "pattern": "mainstay.api.patterns",
    "sum": "mainstay.api.aggregates",
    "udaf": "mainstay.api.aggregates",
    "rows": "mainstay.api.windows",
    "session": "mainstay.api.windows",
    "sliding": "mainstay.api.windows",
    "tumbling": "mainstay.api.windows",
}

if not TYPE_CHECKING:  # or any name would pass a type checker
    __getattr__ = loader(__name__, _HOMES, modules=("connectors", "errors", "spark"))


def __dir__() -> list[str]:
    return __all__
