"""Lines of JSON objects, told apart without parsing them. A hot path."""

from __future__ import annotations

from typing import Any

import numpy as np

_CR, _OPEN, _CLOSE = b"\r{}"

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Places = np.ndarray[Any, np.dtype[np.intp]]


def count_objects(letters: Bytes, line_ends: Places) -> int | None:
    """How many lines there are, if each begins with a brace and ends with one.

    Between such lines nothing is under way: in JSON no brace that closes is followed by one that
    opens, and a text has no line ends. So each of the lines holds one object, or more.
    """
    if not len(line_ends) or line_ends[-1] != len(letters) - 1:
        line_ends = np.append(line_ends, len(letters))
        if not len(letters):
            return 0
    if line_ends[0] == 0 or letters[0] != _OPEN:
        return None
    lasts = letters[line_ends - 1]
    if not (lasts == _CLOSE).all():
        lasts = np.where(lasts == _CR, letters[line_ends - 2], lasts)
        if not (lasts == _CLOSE).all():
            return None
    is_begun = letters[line_ends[:-1] + 1] == _OPEN
    return len(line_ends) if is_begun.all() else None
