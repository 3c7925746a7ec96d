"""What the tests of committing share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lead = Callable[..., Any]
