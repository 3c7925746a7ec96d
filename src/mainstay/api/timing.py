"""Timers of a function: whether it may have them, and the states that hold them."""

from __future__ import annotations

from typing import Any

from mainstay.api.functions import CoKeyedProcess, KeyedBatchProcess, KeyedProcess, MultiProcess
from mainstay.errors import GraphError
from mainstay.runtime.own_states import EVENT_TIMERS, FIRED, PROCESSING_TIMERS
from mainstay.state.info import StateInfo

_HOOKS: dict[type, tuple[str, str]] = {
    KeyedProcess: ("on_timer", "def on_timer(self, at, ctx): ..."),
    CoKeyedProcess: ("on_timer", "def on_timer(self, at, ctx): ..."),
    MultiProcess: ("on_timer", "def on_timer(self, at, ctx): ..."),
    KeyedBatchProcess: ("on_timers", "def on_timers(self, keys, times, ctx): ..."),
}


def with_timers(
    function: Any, states: tuple[StateInfo, ...], where: str, *, keyed_allowed: bool
) -> tuple[StateInfo, ...]:
    """The states of a function, with those that its timers need."""
    declared = [info.name for info in states if info.timer is not None]
    base = next((cls for cls in _HOOKS if isinstance(function, cls)), None)
    if base is None:
        return states
    hook, definition = _HOOKS[base]
    has_hook = getattr(type(function), hook) is not getattr(base, hook)
    if declared and not has_hook:
        raise GraphError(
            f"{where}: class {type(function).__name__} declares the timer {declared[0]!r}, but has "
            f"no method {hook}, which is called when it is due. Write {definition}"
        )
    if has_hook and not keyed_allowed:
        raise GraphError(
            f"{where}: class {type(function).__name__} has {hook}, but its stream has no key, and "
            "a timer belongs to a key. Call key_by(...) first, or leave the method out."
        )
    if not has_hook:
        return states
    # Timers that are not declared are set for the current key, which a batch does not have.
    sets = () if base is KeyedBatchProcess else (EVENT_TIMERS, PROCESSING_TIMERS)
    if not declared and not sets:
        raise GraphError(
            f"{where}: class {type(function).__name__} has {hook}, but declares no timer. Declare "
            'one in the body of the class: close = ms.Timer("event_time").'
        )
    _check_names(states, (*sets, FIRED), where)
    return (*states, *sets, FIRED)


def _check_names(
    states: tuple[StateInfo, ...], reserved: tuple[StateInfo, ...], where: str
) -> None:
    names = {info.name for info in reserved}
    for info in states:
        if info.name in names:
            raise GraphError(
                f"{where} has a state {info.name!r}, which is what the timers of a function are "
                "kept under. Call it another name."
            )
