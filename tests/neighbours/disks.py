"""A small disk of a test's own, that can be filled, made read-only and made whole again."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

BLOCK = bytes(64 << 10)


class SmallDisk:
    """A tmpfs; making one takes root on Linux."""

    def __init__(self, place: Path, size: str = "12m") -> None:
        self.place = place
        self._ballast = place / "ballast"
        place.mkdir()
        try:
            _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            pytest.skip(f"no small disk can be mounted: {said.decode().strip()}")

    def fill(self) -> None:
        """Take all the room there is."""
        with self._ballast.open("ab") as file:
            for block in (BLOCK, bytes(512)):
                _write_all(file.fileno(), block)

    def make_room(self) -> None:
        self._ballast.unlink()

    def make_read_only(self) -> bool:
        """Whether it could be done: not while somebody has a file open for writing."""
        return _remounted(self.place, "ro")

    def make_writable(self) -> None:
        assert _remounted(self.place, "rw")

    def remove(self) -> None:
        subprocess.run(["umount", "-l", self.place], check=True)


def _write_all(descriptor: int, block: bytes) -> None:
    while True:
        try:
            if os.write(descriptor, block) < len(block):
                return
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return


def _mount(*args: str | Path) -> None:
    subprocess.run(["mount", *args], check=True, capture_output=True)


def _remounted(place: Path, how: str) -> bool:
    try:
        _mount("-o", f"remount,{how}", place)
    except subprocess.CalledProcessError:
        return False
    return True
