"""The shape of the package: api → plan → runtime → state → snapshot, and a pure core.

Sources are parsed, never imported, so an import counts wherever it stands: at the top, in a
function, under ``TYPE_CHECKING``, relative, or as ``import_module("...")``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "mainstay"

LAYERS = ("api", "plan", "runtime", "state", "snapshot")
ROOTS = {
    *("errors", "lazy", "masking", "own_frames", "quantities", "schema", "spelling", "tracebacks"),
}

# Which units (first name below ``mainstay``) a unit may import. A unit that is not listed hangs
# outside the core and may import any other.
ALLOWED: dict[str, set[str]] = {
    **{layer: set(LAYERS[depth:]) | ROOTS for depth, layer in enumerate(LAYERS)},
    # A job gives answers, which are what its snapshots give as well.
    "api": {*LAYERS, "inspect"} | ROOTS,
    "errors": {"errors"},
    "lazy": set(),
    "masking": set(),
    "schema": {"schema", "errors", "spelling"},
    "spelling": {"spelling"},
    "quantities": {"errors", "spelling"},
    "tracebacks": {"errors"},
    "own_frames": {"errors", "spelling", "tracebacks"},
    "connectors": {"connectors", "runtime", "state", "snapshot"} | ROOTS,
    "ha": {"ha", "snapshot"} | ROOTS,
    "inspect": {"inspect", "runtime", "state", "snapshot"} | ROOTS,
}
# Folders that do not know of each other: what both need stands a level above them.
WALLS: dict[str, tuple[str, ...]] = {
    "runtime.coordinator": ("runtime.worker", "runtime.operators"),
    "runtime.worker": ("runtime.coordinator",),
    "runtime.operators": ("runtime.coordinator", "runtime.worker"),
    "state.backends.heap": ("state.backends.rocksdb", "state.backends.external"),
    "state.backends.rocksdb": ("state.backends.heap", "state.backends.external"),
    "state.backends.external": ("state.backends.heap", "state.backends.rocksdb"),
    "state.backends.cached": (
        "state.backends.heap",
        "state.backends.rocksdb",
        "state.backends.external",
    ),
}
# Allowed as well, but only inside a function: starting a job is when a drive is needed.
ALLOWED_IN_FUNCTIONS: dict[str, set[str]] = {"api": {"drive", "serve", "spark"}}

PURE = {"plan", "runtime", "state", "snapshot"}
# Time, chance and concurrency reach the core as arguments or not at all.
AMBIENT = {
    *("asyncio", "concurrent", "multiprocessing", "random", "secrets", "socket"),
    *("subprocess", "threading", "time", "uuid"),
    *("datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"),
    *("datetime.date.today", "numpy.random", "os.urandom"),
}
# Storage is the edge of the core: two implementations do real I/O, two have to be thread-safe.
AMBIENT_ALLOWED: dict[str, set[str]] = {
    "mainstay/snapshot/object_storage.py": AMBIENT,
    "mainstay/snapshot/local_copies.py": {"time"},
    "mainstay/snapshot/memory_storage.py": {"threading"},
    "mainstay/snapshot/metered.py": {"threading"},
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A dotted name that a module reaches for, and where."""

    target: str
    line: int
    in_function: bool
    is_import: bool


def violations(modules: dict[str, str]) -> list[str]:
    """Every broken rule in ``{path below src: source}``, as ``path:line: what is wrong``."""
    found = []
    for path, source in sorted(modules.items()):
        unit = _unit(path)
        for reference in _references(path, ast.parse(source, path)):
            found += [
                f"src/{path}:{reference.line}: {problem}"
                for problem in _problems(path, unit, reference)
            ]
    return found


def _problems(path: str, unit: str, reference: Reference) -> Iterator[str]:
    names = reference.target.split(".")
    if reference.is_import and names[0] == "mainstay":
        yield from _layer_problems(unit, names[1] if len(names) > 1 else "", reference)
        yield from _wall_problems(path, reference)
    if reference.is_import and names[0] == "pyspark" and unit != "spark":
        yield "imports pyspark; only modules under mainstay/spark may"
    if unit in PURE:
        ambient = _ambient(reference.target)
        if ambient and ambient not in AMBIENT_ALLOWED.get(path, set()):
            yield (
                f"{unit} is part of the pure core and may not use {ambient}; "
                "take the time, the randomness or the channel as an argument"
            )


def _layer_problems(unit: str, imported: str, reference: Reference) -> Iterator[str]:
    if unit not in ALLOWED or imported in ALLOWED[unit]:
        return
    lazily = ALLOWED_IN_FUNCTIONS.get(unit, set())
    if imported in lazily and reference.in_function:
        return
    hint = (
        "import it inside the function that needs it"
        if imported in lazily
        else f"{unit} may import only {', '.join(sorted(ALLOWED[unit]))}"
    )
    yield f"{unit} imports {reference.target}; {hint}"


def _wall_problems(path: str, reference: Reference) -> Iterator[str]:
    module = path.removesuffix(".py").replace("/", ".")
    for folder, hidden in WALLS.items():
        if f"{module}.".startswith(f"mainstay.{folder}."):
            for other in hidden:
                if f"{reference.target}.".startswith(f"mainstay.{other}."):
                    yield f"{folder} imports {reference.target}; put what both need a level above"


def _unit(path: str) -> str:
    """The first name below the package: ``mainstay/state/heap.py`` and its like are ``state``."""
    return path.removesuffix(".py").split("/")[1]


def _ambient(target: str) -> str | None:
    return next((name for name in AMBIENT if f"{target}.".startswith(f"{name}.")), None)


def _references(path: str, tree: ast.Module) -> Iterator[Reference]:
    """What a module imports, and the ambient sources it reaches through what it imported."""
    bound: dict[str, str] = {}
    for node, in_function in _walk(tree):
        for name, meaning, target in _targets(path, node):
            bound[name] = meaning
            yield Reference(target, node.lineno, in_function, is_import=True)
    for node, in_function in _walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            target = f"{bound.get(root, root)}.{rest}"
            if target in AMBIENT:
                yield Reference(target, node.lineno, in_function, is_import=False)


def _walk(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.expr):
            yield child, in_function
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(child, in_function or is_function)


def _targets(path: str, node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Each import of a statement or call: the name it binds, what that means, what it loads."""
    if isinstance(node, ast.Import):
        for name in node.names:
            first = name.name.split(".")[0]
            yield name.asname or first, name.name if name.asname else first, name.name
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(path, node)
        for name in node.names:
            target = base if name.name == "*" else f"{base}.{name.name}"
            yield name.asname or name.name, target, target
    elif isinstance(node, ast.Call) and node.args:
        called, argument = ast.unparse(node.func), node.args[0]
        if called.endswith(("import_module", "__import__")) and isinstance(argument, ast.Constant):
            yield "", "", str(argument.value)


def _absolute(path: str, node: ast.ImportFrom) -> str:
    """The module that a ``from`` names, with leading dots resolved against ``path``."""
    if not node.level:
        return node.module or ""
    # One dot is ``a`` in ``a/b.py`` and in ``a/__init__.py`` alike: the file's own directory.
    package = path.split("/")[: -node.level]
    return ".".join([*package, node.module] if node.module else package)


def _tree() -> dict[str, str]:
    return {
        path.relative_to(PACKAGE.parent).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }


def test_the_package_keeps_its_layers_and_its_core_pure() -> None:
    modules = _tree()
    assert modules, f"no modules found under {PACKAGE}"
    found = violations(modules)
    assert not found, "\n" + "\n".join(found)


def found_in(path: str, source: str) -> list[str]:
    return violations({f"mainstay/{path}": source})


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("state/heap.py", "from mainstay.runtime.gate import Gate"),
        ("state/heap.py", "import mainstay.api"),
        ("state/heap.py", "from mainstay import plan"),
        ("state/heap.py", "import mainstay"),
        ("state/heap.py", "from mainstay import Environment"),
        ("state/heap.py", "from ..runtime import gate"),
        ("state/heap.py", "from .. import runtime"),
        ("state/backends/heap.py", "from ...runtime.gate import Gate"),
        ("state/backends/__init__.py", "from ...plan import logical"),
        ("snapshot/manifest.py", "def f():\n    from mainstay.state import keygroups"),
        ("plan/chained.py", "if TYPE_CHECKING:\n    from mainstay.api import Stream"),
        ("runtime/worker.py", "import importlib\nimportlib.import_module('mainstay.drive')"),
        ("runtime/worker.py", "from mainstay.testing import run"),
        ("errors.py", "from mainstay.schema import parse"),
        ("schema.py", "from mainstay.state import keygroups"),
        ("api/job.py", "from mainstay.drive import embedded"),
        ("api/job.py", "if TYPE_CHECKING:\n    from mainstay.drive import embedded"),
        ("api/job.py", "class Job:\n    from mainstay.drive import embedded"),
        ("api/job.py", "def start():\n    from mainstay.connectors import Files"),
        ("connectors/files.py", "from mainstay.plan import logical"),
        ("connectors/files.py", "from mainstay.drive import embedded"),
    ],
)
def test_an_import_against_the_layers_is_found(path: str, source: str) -> None:
    assert len(found_in(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("api/stream.py", "from mainstay.plan import logical"),
        ("api/stream.py", "from . import job\nfrom ..snapshot import manifest"),
        ("api/job.py", "def start():\n    from mainstay.drive import embedded"),
        ("api/job.py", "class Job:\n    def start(self):\n        import mainstay.drive"),
        ("state/heap.py", "from mainstay.errors import StateTypeError"),
        ("state/heap.py", "from mainstay import errors, schema"),
        ("state/backends/heap.py", "from ..keygroups import group\nfrom ... import errors"),
        ("schema.py", "from mainstay.errors import SchemaError"),
        ("connectors/files.py", "from mainstay.runtime import source\nimport mainstay.schema"),
        ("testing/run.py", "import mainstay\nfrom mainstay.drive import simulation"),
        ("demo.py", "import mainstay as ms"),
        ("__init__.py", "from mainstay.api import Environment\nfrom mainstay import connectors"),
    ],
)
def test_an_import_along_the_layers_is_not(path: str, source: str) -> None:
    assert found_in(path, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pyspark",
        "from pyspark.sql import SparkSession",
        "def f():\n    import pyspark.sql",
        "__import__('pyspark')",
    ],
)
def test_pyspark_is_imported_under_spark_only(source: str) -> None:
    assert found_in("spark/launch.py", source) == []
    for path in ("api/environment.py", "runtime/worker.py", "drive/embedded.py", "__init__.py"):
        assert len(found_in(path, source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        *(f"import {name}" for name in sorted(AMBIENT) if "." not in name),
        "import time\ntime.sleep(1)",
        "from time import monotonic",
        "from concurrent.futures import ThreadPoolExecutor",
        "def f():\n    import random as r\n    return r.random()",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import datetime as dt\nat = dt.utcnow",
        "import datetime\ndatetime.date.today()",
        "import numpy as np\nnp.random.rand()",
        "import numpy.random",
        "import os.path\nos.urandom(8)",
        "from os import urandom",
    ],
)
@pytest.mark.parametrize("unit", sorted(PURE))
def test_the_core_may_not_reach_for_time_chance_or_threads(unit: str, source: str) -> None:
    assert len(found_in(f"{unit}/thing.py", source)) == 1
    assert found_in("drive/thing.py", source) == []


def test_a_date_that_is_passed_in_is_no_ambient_source() -> None:
    source = "from datetime import datetime\nat = datetime.fromtimestamp(0)\nat.timestamp()"
    assert found_in("runtime/worker.py", source) == []


def test_only_storage_implementations_use_threads() -> None:
    assert found_in("snapshot/memory_storage.py", "import threading") == []
    assert found_in("snapshot/object_storage.py", "import threading") == []
    assert len(found_in("snapshot/manifest.py", "import threading")) == 1
    assert len(found_in("snapshot/memory_storage.py", "import time")) == 1


def test_a_violation_names_file_line_and_remedy() -> None:
    source = '"""Doc."""\n\nfrom mainstay.runtime import gate\n'
    assert found_in("state/heap.py", source) == [
        "src/mainstay/state/heap.py:3: state imports mainstay.runtime.gate; "
        "state may import only errors, lazy, masking, own_frames, quantities, schema, snapshot, "
        "spelling, state, tracebacks"
    ]
