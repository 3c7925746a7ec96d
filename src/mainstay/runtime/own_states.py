"""States that the runtime itself keeps with an operator, beside those of its author.

They are states like any other, declared as an author's are, so that a rescale redistributes them.
"""

from __future__ import annotations

from mainstay.state.declaration import OperatorListState
from mainstay.state.info import StateInfo
from mainstay.state.kinds import TIMERS
from mainstay.state.timer_handles import EVENT_TIME, PROCESSING_TIME, TimerSpec
from mainstay.state.values import ValueType


class SourceState:
    """The one state a source has: its unfinished splits, as JSON."""

    splits = OperatorListState("string", redistribute="split")


SPLITS: StateInfo = SourceState.__dict__["splits"].info()


class SinkState:
    """The one state a sink has: handles whose commit is not confirmed."""

    handles = OperatorListState("struct<epoch:long,handle:binary>", redistribute="split")


HANDLES: StateInfo = SinkState.__dict__["handles"].info()


class LoopState:
    """The one state a loop has. A unit is rows, or a stored file whose first rows are skipped."""

    feedback = OperatorListState(
        "struct<rows:binary,path:string,size:long,checksum:string,skip:long>",
        redistribute="split",
    )


FEEDBACK: StateInfo = LoopState.__dict__["feedback"].info()


class ChannelStates:
    """What in-flight rows are in a snapshot: states of the first operator of a chain.

    They are not its own: a restore takes the rows out, and gives them to the operators that they
    were sent to.
    """

    channels_in = OperatorListState("struct<edge:string,rows:binary>", redistribute="union")
    channels_out = OperatorListState("struct<edge:string,rows:binary>", redistribute="union")


class HeldStates:
    """Rows of the left input that wait for the end of the right one."""

    held_rows = OperatorListState("binary", redistribute="split")
    held_rows_by_key = OperatorListState("binary", redistribute="union")


HELD: StateInfo = HeldStates.__dict__["held_rows"].info()
HELD_BY_KEY: StateInfo = HeldStates.__dict__["held_rows_by_key"].info()


class TimeStates:
    """How far event time had come. Nothing is lost where a program no longer needs them."""

    told_times = OperatorListState("struct<time_us:long,is_idle:boolean>", redistribute="union")
    """The last watermark of each subtask of a source."""
    fired_times = OperatorListState("struct<first:int,last:int,time_us:long>", redistribute="union")
    """How far an operator has fired, by runs of key-groups."""
    ended_times = OperatorListState("struct<first:int,last:int,time_us:long>", redistribute="union")
    """How far each subtask of an operator has come at the end of its input, with its key-groups."""
    pane_widths = OperatorListState("long", redistribute="union")
    """How long the panes are that an operator keeps its rows by, in microseconds."""
    made_for = OperatorListState("string", redistribute="union")
    """Which windows, which join, or which pattern an operator keeps its rows for."""


TOLD: StateInfo = TimeStates.__dict__["told_times"].info()
FIRED: StateInfo = TimeStates.__dict__["fired_times"].info()
ENDED: StateInfo = TimeStates.__dict__["ended_times"].info()
PANES: StateInfo = TimeStates.__dict__["pane_widths"].info()
MADE_FOR: StateInfo = TimeStates.__dict__["made_for"].info()
TIMES = frozenset({TOLD.name, FIRED.name, ENDED.name, PANES.name, MADE_FOR.name})


def _timers(name: str, domain: str) -> StateInfo:
    """Timers that a function sets without declaring them: by key and time."""
    kept, time = ValueType.of("boolean"), ValueType.of("timestamp")
    return StateInfo(name, TIMERS, kept, namespace=time, timer=TimerSpec(domain))


EVENT_TIMERS = _timers("event_timers", EVENT_TIME)
PROCESSING_TIMERS = _timers("processing_timers", PROCESSING_TIME)

CALLS = "in_flight_calls"
"""The rows for which an author's function was called that has not answered: of the type of the
rows, so that it is declared where that is known."""

INCOMING: StateInfo = ChannelStates.__dict__["channels_in"].info()
OUTGOING: StateInfo = ChannelStates.__dict__["channels_out"].info()
