"""What happens to the files of a job behind its back, and what else is on a machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def damage_state(directory: Path) -> None:
    """A byte in the middle of every state file is another one."""
    for path in _state_files(directory):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)


def lose_state(directory: Path) -> None:
    """Every state file is gone."""
    for path in _state_files(directory):
        path.unlink()


def bring_state_back(directory: Path) -> None:
    """As somebody does who has a copy."""
    shutil.copytree(directory / "copy", directory / "snapshots", dirs_exist_ok=True)


def another_python() -> str:
    """An interpreter of another version, or the name of none where there is no other."""
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3.??"))
    return next((str(path) for path in found if path.name != own), "another-python")


def _state_files(directory: Path) -> list[Path]:
    """All of them, after a copy was made."""
    shutil.copytree(directory / "snapshots", directory / "copy")
    found = sorted((directory / "snapshots").rglob("*.msty"))
    assert found
    return found
