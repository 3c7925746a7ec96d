"""The reference of the API, made of docstrings: ``python -m tools.reference`` writes its pages.

A public class is shown with its constructor and every method that has a docstring. A method without
one is not meant to be called, except where a class is for users to write or to declare.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "mainstay": "Everything that `import mainstay as ms` gives.",
    "mainstay.connectors": "Sources and sinks, as `ms.connectors`, and the classes to write one.",
    "mainstay.errors": "Every error, as `ms.errors`. All derive from `MainstayError`.",
    "mainstay.spark": "States as DataFrames, and PySpark data sources, as `ms.spark`.",
    "mainstay.testing": "Running a job in a test: `from mainstay.testing import run, rows`.",
}
WIDE = 96
FOR_USERS = (
    "mainstay.api.functions",
    "mainstay.state.broadcast_declaration",
    "mainstay.state.declaration",
)
"""Where methods need no docstring to be shown: the page on state has what they do."""
INTERNAL = {"info"}


def page_of(module: str) -> Path:
    return ROOT / "docs" / "reference" / f"{module.rpartition('.')[2]}.md"


def names_of(module: ModuleType) -> list[str]:
    """The public names, but for modules, which have pages of their own."""
    listed = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    return [name for name in listed if not inspect.ismodule(getattr(module, name))]


def written(module_name: str) -> str:
    """The page of a module."""
    module = import_module(module_name)
    parts = [f"# `{module_name}`\n", f"{PAGES[module_name]} Made from the docstrings.\n"]
    for name in names_of(module):
        parts += [f"## `{name}`\n", *_entry(name, getattr(module, name))]
    return "\n".join(parts)


def _entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and issubclass(value, BaseException):
        yield f"*A `{value.__base__.__name__}`.*\n" if value.__base__ else ""
        yield _prose(value)
        return
    yield _fenced(_called(name, value))
    yield _prose(value)
    if inspect.isclass(value):
        yield from _methods(value)


def _methods(cls: type) -> Iterator[str]:
    """Those with a docstring, and then the others in a line."""
    others = []
    for name, member in _members(cls):
        text = _prose(member)
        if text.strip():
            yield f"**`{_called(name, member)}`**<br>\n{text}"
        else:
            others.append(f"`{_called(name, member)}`")
    if others:
        yield f"Also {', '.join(others)}: see [State](../state.md#kinds-and-types).\n"


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that are documented, of the class itself and of its bases of ours."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("mainstay."):
            continue
        for name, value in vars(base).items():
            is_shown = inspect.isfunction(value) or isinstance(value, property | staticmethod)
            if is_shown and not name.startswith("_") and name not in seen | INTERNAL:
                seen.add(name)
                if inspect.getdoc(getattr(cls, name)) or base.__module__ in FOR_USERS:
                    yield name, value


def _called(name: str, value: Any) -> str:
    """How it is called; of a property and of what is not called, its name."""
    if isinstance(value, property) or (inspect.isclass(value) and issubclass(value, enum.Enum)):
        return name
    function = value.__func__ if isinstance(value, staticmethod) else value
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return name
    shown = [_parameter(each) for each in signature.parameters.values() if each.name != "self"]
    return f"{name}({', '.join(_marked(signature, shown))})"


def _marked(signature: inspect.Signature, shown: list[str]) -> list[str]:
    """The parameters with the star before those that are given by name only."""
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    named = inspect.Parameter.KEYWORD_ONLY
    if named in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(named), "*")
    return shown


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    name = stars.get(parameter.kind, "") + parameter.name
    if parameter.default is inspect.Parameter.empty:
        return name
    default = repr(parameter.default)
    is_told = parameter.default is not ... and not default.startswith("<")
    return f"{name}={default if is_told else '...'}"


def _fenced(call: str) -> str:
    if len(call) > WIDE:
        name, _, inside = call[:-1].partition("(")
        lines = "".join(f"    {each},\n" for each in _divided(inside))
        call = f"{name}(\n{lines})"
    return f"```py\n{call}\n```\n"


def _divided(inside: str) -> list[str]:
    """Parameters, at the commas that are in no bracket."""
    parts, depth = [""], 0
    for sign in inside:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _prose(value: Any) -> str:
    """A docstring as Markdown."""
    target = value.__func__ if isinstance(value, staticmethod) else value
    text = inspect.getdoc(target) or ""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    # An indented block after a double colon is a program.
    block = r"::\n\n((?:    .*\n?|\n)+)"
    return re.sub(block, lambda found: f":\n\n{_program(found[1])}", text) + "\n"


def _program(indented: str) -> str:
    return f"```py\n{inspect.cleandoc(indented)}\n```\n\n"


def main() -> None:
    for module in PAGES:
        page = page_of(module)
        page.parent.mkdir(exist_ok=True)
        page.write_text(written(module))
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
