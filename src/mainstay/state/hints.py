"""What to write instead of a method or an operator that a state does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

from mainstay.spelling import did_you_mean
from mainstay.state.info import StateInfo

_INSTEAD = {
    "append": "add(value)",
    "insert": "add(value)",
    "put": "update(value)",
    "set": "update(value)",
    "value": "get()",
    "exists": "get()",
    "update": "set(at)",
    "delete": "clear()",
    "cancel": "clear()",
    "register": "set(at)",
}

_CHANGES = ("add(...)", "put(key, value)", "update(...)", "set(at)")
"""How a state is changed: the first of these that it has."""


class Hinting:
    """A handle that names its methods where one is asked for that it does not have."""

    __slots__ = ()
    info: StateInfo
    offered: ClassVar[Sequence[str]] = ()
    """What a function may use of it; if nothing is said here, all that is public."""

    def __getattr__(self, name: str) -> NoReturn:
        # Only asked where nothing was found, so that it costs nothing otherwise.
        there_are = self._offered()
        instead = _INSTEAD.get(name, "")
        is_known = bool(instead) and instead.partition("(")[0] in there_are
        hint = f" Write {instead}." if is_known else did_you_mean(name, there_are)
        raise AttributeError(
            f"a {self._kind()} has no {name!r}.{hint} It has {', '.join(there_are)}."
        )

    def _offered(self) -> Sequence[str]:
        public = [each for each in dir(type(self)) if not each.startswith("_")]
        return self.offered or [each for each in public if each != "offered"]

    def _no_value(self, other: Any) -> NoReturn:
        there_are = self._offered()
        changes = [each for each in _CHANGES if each.partition("(")[0] in there_are]
        name = f"self.{self.info.name}"
        raise TypeError(
            f"state {self.info.name!r} is a {self._kind()}, which is not the value that it holds. "
            f"Read that with {name}.get(), and change it with {name}.{changes[0]}."
        )

    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = _no_value
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = _no_value
    __lt__ = __le__ = __gt__ = __ge__ = _no_value

    def __repr__(self) -> str:
        return f"<a {self._kind()}; get() gives its value>"

    def _kind(self) -> str:
        return f"{type(self).__name__.removesuffix('Handle')}State"
