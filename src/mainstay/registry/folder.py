"""The folder with the entries: only its user may read them, because they hold tokens."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from mainstay.registry.entry import Entry, UnreadableError

VARIABLE = "MAINSTAY_REGISTRY"
"""The environment variable that names another folder."""
SUFFIX = ".json"

_log = logging.getLogger("mainstay")


def registry_folder() -> Path:
    """Where this user's entries are; it need not exist."""
    if given := os.environ.get(VARIABLE):
        return Path(given)
    from platformdirs import user_state_path

    return user_state_path("mainstay") / "jobs"


def write_entry(entry: Entry, folder: Path) -> Path:
    """Add an entry as a whole: who lists the folder never sees a part of it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plain = re.sub(r"[^\w.-]+", "_", entry.name)[:60]
    file = folder / f"{plain}-{entry.pid}-{secrets.token_hex(4)}{SUFFIX}"
    draft = file.with_suffix(".draft")
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as out:
        out.write(entry.to_json())
    draft.replace(file)
    return file


def read_entries(folder: Path) -> list[tuple[Path, Entry]]:
    """All entries, oldest first. Files that are none are named in the log and left out."""
    found = list(_readable(folder))
    return sorted(found, key=lambda each: (each[1].started_at, each[0].name))


def _readable(folder: Path) -> Iterator[tuple[Path, Entry]]:
    for file in folder.glob(f"*{SUFFIX}"):
        try:
            _check_owner(file)
            yield file, Entry.from_json(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue  # its job has ended since
        except (UnreadableError, OSError, UnicodeDecodeError) as error:
            _log.warning("%s of the registry is left out: %s. Delete it if need be.", file, error)


def _check_owner(file: Path) -> None:
    """Commands send what they are told to where an entry says, with the token in it."""
    if hasattr(os, "getuid") and file.lstat().st_uid != os.getuid():
        raise PermissionError("it belongs to another user")


def remove(file: Path) -> None:
    """Forget a job; it may be forgotten already."""
    with contextlib.suppress(OSError):
        file.unlink()
