"""What is run with every combination: a fixed small set, on the installed wheel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.package import first_job
from tools.matrix.environments import Ended, Environment
from tools.matrix.sparks import ROOT

PATIENCE_S = 900.0
NO_JVM = (
    *(f"tests/unit/{each}" for each in ("schema", "spark", "transport", "state/backends/rocksdb")),
    "tests/processors/test_transform_with_state.py",
    "tests/processors/test_apply_in_pandas_with_state.py",
)
QUICK = "not soak and not mutation and not spark and not services"
RESCALE = "tests/spark/test_savepoints.py::test_rescaled_stopped_and_restored_from_the_savepoint"
TRANSFORM = "tests/spark/test_stateful_queries.py::test_9_10_a_table_with_an_initial_state"
FINISHED = "finished [('alice', 5), ('alice', 7), ('bob', 3)]"
SEEN = "its state: [('alice', 7), ('bob', 3)]"
STATE = """
    from pyspark.sql import SparkSession
    spark = SparkSession.getActiveSession()
    state = ms.spark.read_state(spark, "./snapshots", operator="totals", state="total")
    print("its state:", sorted((row.customer, row.total) for row in state.collect()))
"""
IMPORTS = """
import importlib, pkgutil, mainstay
assert "site-packages" in mainstay.__file__, mainstay.__file__
for name in mainstay.__all__:
    getattr(mainstay, name)
for module in pkgutil.walk_packages(mainstay.__path__, "mainstay."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


@dataclass(frozen=True, slots=True)
class Check:
    """Arguments of Python, and what they have to print."""

    name: str
    arguments: tuple[str, ...]
    prints: str = ""
    in_checkout: bool = False
    """Whether it runs there; what is installed is the wheel either way."""

    def why_failed(self, ended: Ended) -> str | None:
        """The line that says what is wrong, if something is."""
        if ended.code == 0 and self.prints in ended.text:
            return None
        return first_line(ended.text) or f"ended with {ended.code}"


def checks(folder: Path) -> Iterator[Check]:
    """All of them, from the quick to the slow. Programs are written into the folder."""
    yield Check("imports", ("-c", IMPORTS))
    yield Check("the first job of the README", (_program(folder, "first", first_job()),), FINISHED)
    yield Check("the same on Spark with RocksDB", (_program(folder, "on_spark", on_spark()),), SEEN)
    yield _tests("tests without a JVM", *NO_JVM, marks=QUICK)
    yield Check("the demonstration, with its crash", ("-m", "mainstay.demo"), "exactly once")
    # Together, because each process starts a Spark of its own.
    yield _tests("a savepoint with a rescale, and transform_with_state", RESCALE, TRANSFORM)


def on_spark() -> str:
    """The first job on Spark instead of in its process, with another backend, and its state."""
    backend = 'state=ms.RocksDB(memory="64MiB")'
    return first_job().replace('spark="embedded"', backend) + STATE


def run_check(check: Check, environment: Environment, folder: Path) -> Ended:
    """Run it in the checkout, or in an empty folder."""
    place = folder / check.name.replace(" ", "_")
    place.mkdir(parents=True, exist_ok=True)
    return environment.run(list(check.arguments), ROOT if check.in_checkout else place, PATIENCE_S)


def first_line(text: str) -> str:
    """Of what a failed command has printed, the line that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("E  ", "FAILED ", "ERROR ", "✘"))]
    raised = [line for line in lines if "Error" in line.partition(":")[0]]
    return (told or raised[-1:] or lines[-1:] or [""])[0][:300]


def _tests(name: str, *tests: str, marks: str = "spark") -> Check:
    # Not the package of the checkout: pyproject.toml has src on the path.
    options = ("-p", "no:cacheprovider", "-o", "pythonpath=.", "-m", marks)
    return Check(name, ("-m", "pytest", *options, *tests), " passed", in_checkout=True)


def _program(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(text)
    return str(file)
