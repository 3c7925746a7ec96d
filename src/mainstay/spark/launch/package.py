"""This package as a file for executors; what it depends on must be installed there."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive: equal content must give equal bytes."""


def packed(folder: Path, root: Path | None = None) -> Path:
    """The package as a zip in ``folder``, written unless it is there.

    Its name has a digest of its content: Spark Connect takes no other content under a name that it
    has, and a cluster that others use as well may have another version.
    """
    data = _archive(root)
    target = folder / f"mainstay-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    if not target.exists():
        target.write_bytes(data)
    return target


@cache
def _archive(root: Path | None) -> bytes:
    # This package may be in an archive itself, such as one of spark-submit's --py-files.
    found = dict(_modules(files("mainstay") if root is None else root, "mainstay"))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(found):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), found[name])
    return data.getvalue()


def _modules(folder: Any, name: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        inner = f"{name}/{each.name}"
        if each.is_dir():
            yield from _modules(each, inner)
        elif each.name.endswith(".py"):
            yield inner, each.read_bytes()
