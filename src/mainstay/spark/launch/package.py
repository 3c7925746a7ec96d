"""This package as a file for executors; what it depends on must be installed there."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

import mainstay

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive: equal content must give equal bytes."""


def packed(folder: Path, root: Path | None = None) -> Path:
    """The package as a zip in ``folder``, written unless it is there.

    Its name has a digest of its content: Spark Connect takes no other content under a name that it
    has, and a cluster that others use as well may have another version.
    """
    data = _archive(root or Path(mainstay.__file__).parent)
    target = folder / f"mainstay-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    if not target.exists():
        target.write_bytes(data)
    return target


@cache
def _archive(root: Path) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            name = Path("mainstay") / path.relative_to(root)
            archive.writestr(zipfile.ZipInfo(str(name), _EPOCH), path.read_bytes())
    return data.getvalue()
