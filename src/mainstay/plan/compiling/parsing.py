"""The syntax of a text, whatever other threads do."""

from __future__ import annotations

import ast

_TRIES = 100


def parsed(text: str) -> ast.Module:
    """The syntax of a text.

    Python 3.11 may fail where two threads parse at a time, as one does that formats a traceback
    (CPython's gh-106905); then it is done again.
    """
    for _ in range(_TRIES):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)
