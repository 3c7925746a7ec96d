"""``mainstay init``: a project whose test passes, and whose job runs at once."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from mainstay.errors import GraphError

SUFFIX = ".txt"
"""What the files of the template have at the end of their names, being no part of this one."""


def write_skeleton(folder: Path) -> list[Path]:
    """Write its files; refuses a folder that has something in it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GraphError(
            f"{str(folder)!r} is not empty, and nothing is overwritten. Name a folder that is "
            "absent or empty."
        )
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for each in sorted(files("mainstay.program").joinpath("template").iterdir(), key=str):
        if each.name.endswith(SUFFIX):
            file = folder / each.name.removesuffix(SUFFIX)
            text = each.read_text(encoding="utf-8")
            file.write_text(text.replace("{name}", folder.resolve().name), encoding="utf-8")
            found.append(file)
    return found
