"""What ``mainstay check`` shows in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from mainstay.spark.checking.findings import (
    DIFFERENT,
    NEEDED,
    PROCESSOR,
    UNSEEN,
    UNSUPPORTED,
    CheckedFile,
    CheckedFunction,
    Finding,
    FoundState,
)
from mainstay.survey.listing import Listing, show_table

_LEVELS = {
    UNSUPPORTED: ("not supported", "red"),
    UNSEEN: ("not seen", "yellow"),
    NEEDED: ("needed", "bold"),
    DIFFERENT: ("different", "cyan"),
}


def document_of(checked: CheckedFile) -> dict[str, Any]:
    """The report for programs."""
    document = {"runs": checked.runs, **asdict(checked)}
    for found, function in zip(document["functions"], checked.functions, strict=True):
        found |= {"runs": function.runs, "seen": function.is_seen}
    return document


def show_checked(console: Console, checked: CheckedFile) -> None:
    """The report for people."""
    for function in checked.functions:
        _show_function(console, function)
    _show_findings(console, checked.findings)
    console.print(_summary(checked.functions), highlight=False)


def _summary(functions: Sequence[CheckedFunction]) -> str:
    runs = sum(function.runs for function in functions)
    unseen = sum(function.is_supported and not function.is_seen for function in functions)
    verdict = f"{runs} of {len(functions)} run on Mainstay as they are"
    return f"{verdict}; {unseen} could not be seen whole" if unseen else verdict


def _show_function(console: Console, function: CheckedFunction) -> None:
    console.print(
        Text.assemble(
            (function.name, "bold"),
            f" ({function.kind}, line {function.line}) ",
            _verdict(function),
        )
    )
    if function.states:
        show_table(console, _states(function.states))
    elif function.kind == PROCESSOR and function.runs:
        console.print("  no states")
    used = [str(call) for call in function.calls if call.is_supported]
    if used:
        console.print(f"  supported: {', '.join(used)}", highlight=False, soft_wrap=True)
    _show_findings(console, function.findings)
    console.print()


def _verdict(function: CheckedFunction) -> tuple[str, str]:
    if not function.is_supported:
        return "does not run as it is", "red"
    return ("runs as it is", "green") if function.runs else ("was not seen whole", "yellow")


def _states(states: Iterable[FoundState]) -> Listing:
    listing = Listing(None, "state", "kind", "type", "key of the map", "time to live")
    for each in states:
        ttl = "" if each.ttl_s is None else f"{each.ttl_s:g} s"
        listing.add(each.name, each.kind, each.type, each.map_key or "", ttl)
    return listing


def _show_findings(console: Console, findings: Iterable[Finding]) -> None:
    order = list(_LEVELS)
    for each in sorted(findings, key=lambda found: order.index(found.level)):
        title, colour = _LEVELS[each.level]
        where = "" if each.line is None else f"line {each.line}: "
        line = Text.assemble("  ", (f"{title}: ", colour), f"{where}{each.text}")
        console.print(line, highlight=False, soft_wrap=True)
