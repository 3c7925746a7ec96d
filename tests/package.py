"""What a user installs: the wheel and the source archive, and the wheel in an empty environment.

``python -m tests.package`` (or ``make package``) builds both into ``dist``, installs the wheel with
its dependencies into a new environment, and runs the first job of the README there. It needs an
index of packages. Another Python is named by ``--python /path/to/python3.12``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.pages import ROOT

WHEN_IMPORTED = "import sys, mainstay; print(sorted(set(sys.modules) & {'pyarrow', 'pyspark'}))"


def build(target: Path) -> tuple[Path, Path]:
    """Build the wheel and the source archive of this checkout, with what is installed here."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (wheel,), (archive,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, archive


def new_environment(folder: Path, python: str = sys.executable) -> Path:
    """Make an environment with nothing in it; returns its Python."""
    said([python, "-m", "venv", str(folder)], folder.parent)
    return folder / "bin" / "python"


def said(command: list[str], folder: Path) -> str:
    """What a command prints that ends well."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def first_job() -> str:
    """The first program of the README."""
    text = (ROOT / "README.md").read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def try_it(python: Path, folder: Path) -> str:
    """Run the first job with a Python that has the wheel; returns what it printed."""
    program = folder / "first_job.py"
    program.write_text(first_job())
    return said([str(python), str(program)], folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, archive = build(folder)
        python = new_environment(folder / "environment", asked.python)
        said([str(python), "-m", "pip", "install", "--quiet", str(wheel)], folder)
        print(said([str(python), "--version"], folder).strip(), "with", wheel.name)
        print("loaded by the import:", said([str(python), "-c", WHEN_IMPORTED], folder).strip())
        print("the first job:", try_it(python, folder).strip())
        said([str(python), "-m", "pip", "install", "--quiet", f"{wheel}[cli]"], folder)
        print(said([str(python.parent / "mainstay"), "--version"], folder).strip())
        keep(ROOT / "dist", wheel, archive)


def keep(target: Path, *files: Path) -> None:
    """Leave what was tried in ``dist``."""
    target.mkdir(exist_ok=True)
    for file in files:
        (target / file.name).write_bytes(file.read_bytes())
        print("dist/" + file.name)


if __name__ == "__main__":
    main()
