"""Sealed documents: JSON that carries a checksum of itself.

A document that nothing else names has nobody who keeps its checksum, and a flipped bit in it may
well be JSON again: another epoch, another offset. The seal is the checksum of the document without
it, in a form that spaces and the order of names do not change.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

SEAL = "checksum"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with its seal."""
    return {**document, SEAL: _checksum(document)}


def unsealed(document: Mapping[str, Any], *, is_required: bool) -> dict[str, Any]:
    """The document without its seal; ``ValueError`` where that is broken, or missing but required.

    Documents of older formats have none.
    """
    left = {name: value for name, value in document.items() if name != SEAL}
    if SEAL not in document:
        if is_required:
            raise ValueError("its checksum is missing")
        return left
    if document[SEAL] != (found := _checksum(left)):
        raise ValueError(f"expected the checksum {document[SEAL]}, found {found}")
    return left


def _checksum(document: Mapping[str, Any]) -> str:
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return f"crc32:{zlib.crc32(data):08x}"
