"""What to write instead of a method that a stream does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn

from mainstay.spelling import did_you_mean

_AGGREGATES = {
    "count": "aggregate(n=ms.count())",
    **{f: f'aggregate({f}=ms.{f}("column"))' for f in ("sum", "min", "max", "avg")},
    "mean": 'aggregate(avg=ms.avg("column"))',
    "apply": "process(...), with a WindowProcess",
}
_LATER = ("sink", "map", "flat_map", "filter", "map_batches", "key_by", "union", "late", "join")
OF_WINDOWS = {
    **dict.fromkeys(
        _LATER, "Say first what is computed of each window, as in aggregate(n=ms.count())."
    ),
    **{name: f"Write {instead}." for name, instead in _AGGREGATES.items()},
}


class Instead:
    """Says what to write where something is asked for that it does not have."""

    _instead: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def _instead_of(cls, name: str) -> str | None:
        return cls._instead.get(name)

    if not TYPE_CHECKING:  # or every name would be taken for one that there is

        def __getattr__(self, name: str) -> NoReturn:
            cls = type(self)
            public = [each for each in dir(cls) if not each.startswith("_")]
            hint = cls._instead_of(name)
            hint = f" {hint}" if hint else did_you_mean(name, public)
            raise AttributeError(f"a {cls.__name__} has no {name!r}.{hint}", name=name, obj=self)
