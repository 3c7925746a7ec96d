"""States of some keys for a while, as the author's function sees them when it is called itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mainstay.state.backends.compiled import compiled_access
from mainstay.state.info import StateInfo
from mainstay.state.keyed import Access, AnyContext

_SOURCE = """
def get():
    return live_get(context.current_key)

def get_thawed():
    kept = live_get(context.current_key)
    return kept if kept is None else thaw(kept)

def update(value):
    if value is None:
        return delete(context.current_key)
    if not (FITS):
        value = checked(value)
    put(context.current_key, value)

def add(value):
    if not (FITS):
        value = checked(value)
    current = live_get(context.current_key)
    if current is not None:
        value = function(current, value)
        if not (FITS):
            value = reduced(value)
    put(context.current_key, value)

def add_thawed(value):
    value = checked(value)
    current = live_get(context.current_key)
    if current is not None:
        value = reduced(function(thaw(current), thaw(value)))
    put(context.current_key, value)
"""


class Scratch:
    """A table of values that holds the keys of some rows, and notes which of them have changed."""

    def __init__(self, info: StateInfo) -> None:
        self.info = info
        self.live: dict[Any, Any] = {}
        self.changed: dict[Any, None] = {}

    def access(self, context: AnyContext, info: StateInfo | None = None) -> Access:
        return compiled_access(
            _SOURCE,
            info or self.info,
            context=context,
            live_get=self.live.get,
            put=self.put,
            delete=self.delete,
        )

    def read(self, key: Any) -> Any:
        return self.live.get(key)

    peek = read

    def put(self, key: Any, kept: Any) -> None:
        self.live[key] = kept
        self.changed[key] = None

    def delete(self, key: Any) -> None:
        self.live.pop(key, None)
        self.changed[key] = None

    def read_many(self, keys: Sequence[Any], default: Any) -> list[Any]:
        return [default if (kept := self.live.get(key)) is None else kept for key in keys]

    def put_many(self, keys: Sequence[Any], kept: Sequence[Any]) -> None:
        for key, each in zip(keys, kept, strict=True):
            if each is None:
                self.delete(key)
            else:
                self.put(key, each)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        yield from self.live.items()

    survey = entries

    def begin(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Hold these keys, and nothing else."""
        self.live.clear()
        self.changed.clear()
        self.live.update((key, kept) for key, kept in entries if kept is not None)
