"""An environment of one Python and one PySpark, with the wheel of this checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.matrix.interpreters import Interpreter
from tools.matrix.sparks import Spark

EXTRAS = "all"
TESTING = (
    *("pytest", "pytest-rerunfailures", "pytest-xdist", "hypothesis", "sybil"),
    *("pyyaml", "psutil", "httpx"),
    # Spark's own transformWithState needs it and does not bring it.
    "protobuf",
)
"""What the tests import; the rest is what the wheel asks for."""
SHOWN = ("pyarrow", "numpy", "pandas", "obstore", "pyzmq", "cloudpickle", "rocksdict")
"""The packages whose versions the table names."""
_OWN = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command said, both streams in one, and how it ended."""

    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment of an interpreter."""

    interpreter: Interpreter
    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(self, arguments: list[str], folder: Path, patience_s: float) -> Ended:
        """Run its Python; a command that takes too long is ended with all that it has started."""
        command = [*self.interpreter.entry, self.python, *arguments]
        return run(command, folder, self._variables(), patience_s)

    def install(self, wheel: Path, spark: Spark, bounds: Path) -> Ended:
        """Install the wheel with its extras, this PySpark, and what tests need; pip's constraints
        are in a file."""
        wanted = [f"{wheel}[{EXTRAS}]", str(spark.wheel), *TESTING]
        options = ["--quiet", "--no-compile", "--constraint", str(bounds)]
        return self.run(["-m", "pip", "install", *options, *wanted], self.folder, 1800.0)

    def packages(self) -> dict[str, str]:
        """The versions of what was installed."""
        listed = self.run(["-m", "pip", "list", "--format=json"], self.folder, 120.0)
        (line,) = (each for each in listed.text.splitlines() if each.startswith("["))
        found = {each["name"].lower(): each["version"] for each in json.loads(line)}
        return {name: found[name] for name in SHOWN if name in found}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _variables(self) -> dict[str, str]:
        """Those of a user who has activated this environment and set nothing else."""
        kept = {name: value for name, value in os.environ.items() if name not in _OWN}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        return {**kept, **self.interpreter.variables, "PATH": path}


def make(interpreter: Interpreter, folder: Path) -> Environment:
    """An environment with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [*interpreter.entry, interpreter.path, "-m", "venv", str(folder)]
    made = run(command, folder.parent, {**os.environ, **interpreter.variables}, 300.0)
    if made.code != 0:
        raise RuntimeError(f"{interpreter.path} makes no environment: {made.text}")
    return Environment(interpreter, folder)


def run(command: list[str], folder: Path, variables: dict[str, str], patience_s: float) -> Ended:
    """Run a command in a group of its own, which ends with it."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        return Ended(-signal.SIGKILL, f"{text}\nnot done after {patience_s:.0f} s")
    return Ended(process.returncode, text)
