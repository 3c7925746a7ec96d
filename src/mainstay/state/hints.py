"""What to write instead of a method that a state does not have."""

from __future__ import annotations

from typing import NoReturn

from mainstay.spelling import did_you_mean

_INSTEAD = {
    "append": "add(value)",
    "insert": "add(value)",
    "put": "update(value)",
    "set": "update(value)",
    "value": "get()",
    "exists": "get()",
}


class Hinting:
    """A handle that names its methods where one is asked for that it does not have."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        # Only asked where nothing was found, so that it costs nothing otherwise.
        there_are = [each for each in dir(type(self)) if not each.startswith("_")]
        instead = _INSTEAD.get(name, "")
        is_known = bool(instead) and instead.partition("(")[0] in there_are
        hint = f" Write {instead}." if is_known else did_you_mean(name, there_are)
        raise AttributeError(
            f"a {self._kind()} has no {name!r}.{hint} It has {', '.join(there_are)}."
        )

    def __repr__(self) -> str:
        return f"<a {self._kind()}; get() gives its value>"

    def _kind(self) -> str:
        return f"{type(self).__name__.removesuffix('Handle')}State"
