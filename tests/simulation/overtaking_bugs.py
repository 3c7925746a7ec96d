"""A bug that is planted wherever markers overtake rows: in unaligned epochs and in late stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from mainstay.runtime.worker.output import OutputChannel


@contextmanager
def what_had_no_credit_is_not_kept() -> Iterator[None]:
    right = OutputChannel.overtake

    def nothing(self: Any, epoch: Any) -> list[Any]:
        right(self, epoch)
        return []

    with patch.object(OutputChannel, "overtake", nothing):
        yield
