"""An environment in an archive, as docs/yarn.md has it made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.pages import ROOT

INSTALL_S = 400.0


def packed_environment(folder: Path) -> Path:
    """An archive with this package and what it needs, but without PySpark: YARN has that."""
    place, archive = folder / "packed", folder / "environment.tar.gz"
    _run(sys.executable, "-m", "venv", "--without-pip", str(place))
    pip = ["-m", "pip", "--quiet", "--python", str(place / "bin" / "python")]
    _run(sys.executable, *pip, "install", f"{ROOT}[ui]", "pandas>=2.2,<3")
    packing = ["-m", "venv_pack", "--prefix", str(place), "--compress-level", "1"]
    _run(sys.executable, *packing, "--output", str(archive))
    return archive


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, f"{command}: {done.stderr}"
