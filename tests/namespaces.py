"""States with a namespace, which only operators of the runtime declare, for functions of tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from mainstay.state.declaration import StateDeclaration
from mainstay.state.info import StateInfo
from mainstay.state.values import ValueType

Declaration = TypeVar("Declaration", bound=StateDeclaration)


def namespaced(declaration: Declaration, namespace: str) -> Declaration:
    """The declaration of a state that is kept by a namespace beside the key."""
    plain = declaration.info

    def info() -> StateInfo:
        return replace(plain(), namespace=ValueType.of(namespace))

    declaration.info = info  # type: ignore[method-assign]
    return declaration


def enter(handle: Any, namespace: Any) -> Any:
    """The handle of such a state, which means this namespace from now on."""
    handle._context.enter(namespace)
    return handle
