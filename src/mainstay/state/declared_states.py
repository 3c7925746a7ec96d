"""The states that a function declares, as they are found before a job starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mainstay.errors import GraphError
from mainstay.state.declaration import StateDeclaration
from mainstay.state.info import StateInfo


def declarations_of(function: Any) -> tuple[StateInfo, ...]:
    """The states that a function's class declares, base classes first, in order of writing."""
    for name, attribute in getattr(function, "__dict__", {}).items():
        if isinstance(attribute, StateDeclaration):
            raise GraphError(
                f"{type(function).__name__}.{name} is a state that was declared on an instance. "
                "Declare it in the body of the class, where it can be found before the job starts."
            )
    found: dict[str, StateInfo] = {}
    for cls in reversed(type(function).__mro__):
        for name, attribute in vars(cls).items():
            if isinstance(attribute, StateDeclaration):
                # By the name it is found under: one declaration may stand under several.
                found[name] = replace(attribute.info(), name=name)
            else:
                found.pop(name, None)
    return tuple(found.values())
