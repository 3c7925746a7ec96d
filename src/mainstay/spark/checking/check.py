"""``check_file``: what of a file's stateful functions runs on Mainstay as it is.

A processor is made and its ``init`` is run, as it is when a graph is built; what its methods do is
read from the text of the file.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from mainstay.errors import GraphError
from mainstay.spark.checking.differences import differences
from mainstay.spark.checking.findings import (
    NEEDED,
    PROCESSOR,
    UNSEEN,
    UNSUPPORTED,
    CheckedFile,
    CheckedFunction,
    Finding,
    FoundState,
)
from mainstay.spark.checking.group_functions import group_functions
from mainstay.spark.checking.loading import LoadedFile, load
from mainstay.spark.checking.source_calls import HANDLE, ClassCalls, calls_of
from mainstay.spark.checking.syntax import argument, last_name, method_calls
from mainstay.spark.processors import time_modes
from mainstay.spark.processors.declaring import declared_by
from mainstay.state.info import StateInfo

_OUTPUT_MODES = {
    "transformWithState": 2,
    "transformWithStateInPandas": 2,
    "applyInPandasWithState": 3,
}
"""The methods of a query, and which argument of each is its output mode."""


def check_file(path: Path) -> CheckedFile:
    """Look at all stateful functions of a file; a ``GraphError`` where it has none."""
    loaded = load(path)
    functions = [*_processors(loaded), *_passed_over(loaded), *group_functions(loaded.tree)]
    if not functions:
        raise GraphError(
            f"{path} has neither a subclass of StatefulProcessor nor a function of "
            "applyInPandasWithState. Name the file that defines them."
        )
    functions.sort(key=lambda each: each.line)
    return CheckedFile(str(path), tuple(functions), tuple(_of_file(loaded)))


def _of_file(loaded: LoadedFile) -> Iterator[Finding]:
    for call, function in method_calls(loaded.tree):
        place = _OUTPUT_MODES.get(function.attr)
        mode = None if place is None else argument(call, place, "outputMode")
        if isinstance(mode, ast.Constant) and str(mode.value).lower() == "complete":
            text = 'output mode "complete" is refused: there are no batches to complete'
            yield Finding(UNSUPPORTED, text, mode.lineno)


# ---------------------------------------------------------------- processors


def _processors(loaded: LoadedFile) -> list[CheckedFunction]:
    nodes = {each.name: each for each in loaded.tree.body if isinstance(each, ast.ClassDef)}
    return [
        _checked(nodes[name], found, loaded, nodes)
        for name, found in vars(loaded.module).items()
        if name in nodes and _is_processor(found) and not inspect.isabstract(found)
    ]


def _passed_over(loaded: LoadedFile) -> Iterator[CheckedFunction]:
    """Processors whose class statement could not be run."""
    known = {name for name, found in vars(loaded.module).items() if _is_processor(found)}
    known.add(StatefulProcessor.__name__)
    for node in loaded.skipped:
        if isinstance(node, ast.ClassDef) and known.intersection(map(last_name, node.bases)):
            known.add(node.name)
            finding = Finding(UNSEEN, "it needs what a Spark session would have made")
            yield CheckedFunction(node.name, PROCESSOR, node.lineno, findings=(finding,))


def _is_processor(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, StatefulProcessor)


def _checked(
    node: ast.ClassDef,
    processor: type[StatefulProcessor],
    loaded: LoadedFile,
    nodes: dict[str, ast.ClassDef],
) -> CheckedFunction:
    bases = (nodes.get(each.__name__) for each in processor.__mro__)
    calls = calls_of([each for each in bases if each is not None])
    states, problems = _declared(processor, loaded)
    findings = (*problems, *differences(calls), *_needs(states, calls))
    return CheckedFunction(node.name, PROCESSOR, node.lineno, states, calls.found(), findings)


def _declared(
    processor: type[StatefulProcessor], loaded: LoadedFile
) -> tuple[tuple[FoundState, ...], list[Finding]]:
    """What ``init`` declares. The mode with which everything may be declared is that of clocks."""
    try:
        made = _instance(processor, loaded)
    except GraphError as error:
        return (), [Finding(UNSEEN, str(error))]
    if made is None:
        text = (
            "its constructor needs arguments, so its init was not run and its states are not "
            "known. Give them defaults, or make one in the file"
        )
        return (), [Finding(UNSEEN, text)]
    try:
        declared = declared_by(made, time_modes.PROCESSING, processor.__name__)
    except GraphError as error:
        return (), [Finding(UNSUPPORTED, str(error))]
    return tuple(map(_state, declared.states)), []


def _instance(processor: type[StatefulProcessor], loaded: LoadedFile) -> StatefulProcessor | None:
    for found in vars(loaded.module).values():
        if type(found) is processor:
            return found
    try:
        inspect.signature(processor).bind()
    except TypeError:
        return None
    try:
        return processor()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise GraphError(
            f"its constructor fails when it is called without arguments: {type(error).__name__}: "
            f"{error}. Make one in the file"
        ) from error


def _state(info: StateInfo) -> FoundState:
    return FoundState(
        info.name,
        info.kind.name,
        info.value.ddl,
        None if info.map_key is None else info.map_key.ddl,
        None if info.ttl is None else info.ttl.lifetime_us / 1_000_000,
    )


def _needs(states: tuple[FoundState, ...], calls: ClassCalls) -> Iterator[Finding]:
    """What has to be said where the processor is used."""
    with_ttl = [each for each in states if each.ttl_s is not None]
    if with_ttl:
        first = with_ttl[0]
        text = f'time_mode="ProcessingTime" is needed: {first.name} lives for {first.ttl_s:g} s'
        yield Finding(NEEDED, text)
    elif calls.lines_of(HANDLE, "registerTimer"):
        text = 'time_mode="ProcessingTime" or "EventTime" is needed for timers; with the latter a '
        yield Finding(NEEDED, f"{text}source needs watermark=, without which no job starts")
