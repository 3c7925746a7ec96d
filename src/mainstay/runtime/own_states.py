"""States that the runtime itself keeps with an operator, beside those of its author.

They are operator states, declared as an author's are, so that a rescale redistributes them.
"""

from __future__ import annotations

from mainstay.state.declaration import OperatorListState
from mainstay.state.info import StateInfo


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


INCOMING: StateInfo = ChannelStates.__dict__["channels_in"].info()
OUTGOING: StateInfo = ChannelStates.__dict__["channels_out"].info()
