"""Declarations whose type and function stand in each other's place."""

from __future__ import annotations

from typing import Any

from mainstay.errors import GraphError


def check_reducing(function: Any) -> None:
    """Refuse what cannot be called where ``ReducingState`` has its function: second."""
    if not callable(function):
        raise GraphError(
            f"ReducingState(..., {function!r}): the type of the value comes first, then the "
            f"function of two values that reduces them. Write ReducingState({function!r}, "
            "your_function)."
        )


def check_aggregating(function: Any) -> None:
    """Refuse a type where ``AggregatingState`` has its function: first."""
    if isinstance(function, str):
        raise GraphError(
            f"AggregatingState({function!r}, ...): the function comes first, then the type of "
            f"its accumulator. Write AggregatingState(YourFunction(), {function!r})."
        )
