"""The public face: each name means one thing, is documented, and says what it is.

What a program is given or gives is of a class that it can name: to annotate, to compare, to find in
the documents. ``docs/names.md`` lists them all.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import mainstay as ms
from mainstay.api.job import Job
from mainstay.drive.embedded import EmbeddedJob
from mainstay.drive.handle import JobHandle
from mainstay.drive.remote_job import RemoteJob
from mainstay.runtime.status import EpochStatus
from tests.pages import ROOT

MODULES = (
    "mainstay",
    "mainstay.connectors",
    "mainstay.connectors.kafka",
    "mainstay.connectors.postgres",
    "mainstay.errors",
    "mainstay.logs",
    "mainstay.spark",
    "mainstay.testing",
)
SHELVES = ("mainstay.connectors.kafka", "mainstay.connectors.postgres")
"""Parts of ``mainstay.connectors`` that may be imported by themselves."""
OF_TESTS = {"Watermark", "rows"}
"""What a program declares, and a test has happen or gives: one name for both."""
INTERNAL = {"coordinator", "runs_functions", "post"}
"""What the drives use of a handle."""


def names_of(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = ((n, v) for n, v in vars(module).items() if not n.startswith("_"))
    return [n for n, v in own if inspect.isclass(v) and v.__module__ == module.__name__]


def public() -> Iterator[tuple[str, str, Any]]:
    """Module, name and what it stands for; what needs PySpark only where that is installed."""
    for name in MODULES:
        module = import_module(name)
        if name == "mainstay.spark":
            pytest.importorskip("pyspark")
        yield from ((name, each, getattr(module, each)) for each in names_of(module))


def test_a_public_name_is_exported_from_one_place() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, name, _ in public():
        if module not in SHELVES and not (module == "mainstay.testing" and name in OF_TESTS):
            places[name].append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_a_shelf_of_the_connectors_has_the_same_things_under_the_same_names() -> None:
    for shelf in SHELVES:
        module = import_module(shelf)
        for name in set(names_of(module)) & set(ms.connectors.__all__):
            assert getattr(module, name) is getattr(ms.connectors, name)


def test_lists_of_public_names_are_sorted_and_name_nothing_twice() -> None:
    for name in MODULES:
        module = import_module(name)
        if hasattr(module, "__all__"):
            assert list(module.__all__) == sorted(set(module.__all__)), name


def test_every_public_name_says_what_it_is() -> None:
    silent = [f"{module}.{name}" for module, name, found in public() if not inspect.getdoc(found)]
    assert silent == []


def test_every_public_name_is_on_the_page_of_names() -> None:
    page = (ROOT / "docs" / "names.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    names = {name for _, name, found in public() if not inspect.ismodule(found)}
    assert listed == names


# ---------------------------------------------------------------- what is given has a name


def mentioned(annotation: Any) -> Iterator[type]:
    """The classes of ours in an annotation."""
    for part in typing.get_args(annotation):
        yield from mentioned(part)
    origin = typing.get_origin(annotation) or annotation
    if inspect.isclass(origin) and origin.__module__.startswith("mainstay."):
        yield origin


def annotations_of(cls: type) -> Iterator[Any]:
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else member
        if not name.startswith("_") and inspect.isfunction(function):
            yield from typing.get_type_hints(function).values()


@pytest.mark.parametrize(
    "cls", [Job, ms.Process, ms.KeyedProcess, ms.KeyedBatchProcess, ms.CoKeyedProcess]
)
def test_what_a_method_takes_or_gives_has_a_public_name(cls: type) -> None:
    exported = {value for _, _, value in public() if inspect.isclass(value)}
    used = {found for each in annotations_of(cls) for found in mentioned(each)}
    assert used - exported == set()


# ---------------------------------------------------------------- the handle of a job


def methods(cls: type) -> dict[str, Any]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")}


def handled() -> dict[str, Any]:
    """What a handle has itself, or from the thread it is on."""
    bases = [base for base in reversed(JobHandle.__mro__) if base not in Job.__mro__]
    return {name: value for base in bases for name, value in methods(base).items()}


def test_the_handle_of_a_job_has_what_is_promised_and_nothing_else() -> None:
    assert set(methods(JobHandle)) - INTERNAL <= set(methods(Job)) <= set(handled())
    for drive in (EmbeddedJob, RemoteJob):
        assert issubclass(drive, JobHandle)


def test_a_method_of_a_job_is_documented_once_where_it_is_promised() -> None:
    for name, promised in methods(Job).items():
        own = handled()[name]
        assert promised.__doc__, name
        assert own.__doc__ in (None, promised.__doc__) or isinstance(own, property), name
        assert inspect.getdoc(getattr(EmbeddedJob, name)) == inspect.getdoc(promised), name


def test_a_method_of_a_job_is_called_as_it_is_promised() -> None:
    for name, promised in methods(Job).items():
        if inspect.isfunction(promised):
            asked = inspect.signature(promised).parameters
            assert list(asked) == list(inspect.signature(handled()[name]).parameters)


def test_every_method_of_a_job_that_the_documents_name_is_promised() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    named = set(re.findall(r"`job\.(\w+)\(", text)) | set(re.findall(r"^job\.(\w+)\(", text, re.M))
    assert named
    assert named - set(methods(Job)) == set()


def test_the_status_of_an_epoch_is_its_word() -> None:
    assert EpochStatus.COMPLETE == "complete"
    assert f"{EpochStatus.FAILED} {EpochStatus.SUBSUMED!s}" == "failed subsumed"
