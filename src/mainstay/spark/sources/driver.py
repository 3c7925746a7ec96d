"""The reader of a streaming data source at the driver, where offsets are planned and committed.

Its methods are called by one thread at a time. It lives as long as the job does, over all
attempts, because readers may remember things between calls; after an exception it is stopped,
and the next call gets a new one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class DriverReader:
    """Makes the reader when it is first used. Not pickled: workers have readers of their own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._reader: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return DriverReader, (self._make,)

    @contextlib.contextmanager
    def use(self) -> Iterator[Any]:
        with self._lock:
            try:
                if self._reader is None:
                    self._reader = self._make()
                yield self._reader
            except BaseException:
                self._drop()
                raise

    def _drop(self) -> None:
        reader, self._reader = self._reader, None
        stop = getattr(reader, "stop", None)  # simple readers have none
        if stop is not None:
            # What has just failed may fail to stop as well; the first error says more.
            with contextlib.suppress(Exception):
                stop()
