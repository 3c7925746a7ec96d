"""Spark's time modes: which clock the timers of a processor go by."""

from __future__ import annotations

from typing import Any

from mainstay.errors import GraphError
from mainstay.runtime.own_states import EVENT_TIMERS, FIRED, PROCESSING_TIMERS
from mainstay.spelling import did_you_mean
from mainstay.state.info import StateInfo
from mainstay.state.timer_handles import EVENT_TIME, PROCESSING_TIME

NONE, PROCESSING, EVENT = "None", "ProcessingTime", "EventTime"
_MODES = {mode.lower(): mode for mode in (NONE, PROCESSING, EVENT)}
_OUTPUT_MODES = {mode.lower(): mode for mode in ("Append", "Update")}

DOMAINS: dict[str, str | None] = {NONE: None, PROCESSING: PROCESSING_TIME, EVENT: EVENT_TIME}
"""What Mainstay calls the clock of a mode."""
STATES: dict[str, tuple[StateInfo, ...]] = {
    NONE: (),
    PROCESSING: (PROCESSING_TIMERS,),
    EVENT: (EVENT_TIMERS, FIRED),
}
"""What a mode needs to be kept beside the states of a processor."""


def checked_time_mode(given: Any, where: str) -> str:
    """A time mode as Spark writes it, whatever the case of its letters."""
    mode = _MODES.get(str(given).lower())
    if mode is None:
        raise GraphError(
            f"{where}: [STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE] Unknown time mode {given}; choose "
            f"one of {', '.join(map(repr, _MODES.values()))}."
            f"{did_you_mean(str(given), _MODES.values())}"
        )
    return mode


def check_output_mode(given: Any, where: str) -> None:
    """Rows are what the function yields, whatever the mode; but no result can be complete."""
    if str(given).lower() in _OUTPUT_MODES:
        return
    kind, why = (
        ("UNSUPPORTED_OPERATION", ", which would emit all results anew with every batch")
        if str(given).lower() == "complete"
        else ("INVALID", "")
    )
    raise GraphError(
        f"{where}: [STREAMING_OUTPUT_MODE.{kind}] Invalid streaming output mode: {given}{why}. "
        'Choose "Append" or "Update".'
    )
