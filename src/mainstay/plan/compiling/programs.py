"""A class of the author's, compiled: from its ``process`` to the program of a kernel."""

from __future__ import annotations

import inspect
from inspect import Parameter
from types import FunctionType
from typing import Any

import pyarrow as pa

from mainstay.plan.compiling import statements, states
from mainstay.plan.compiling.emission import Emission
from mainstay.plan.compiling.frame import Frame
from mainstay.plan.compiling.kernel import READS, Kernel, dtype, part_dtype
from mainstay.plan.compiling.refusal import WITHOUT, NotCompiledError
from mainstay.plan.compiling.sources import written
from mainstay.plan.compiling.types import Type, of_state
from mainstay.plan.compiling.values import Thing, Value
from mainstay.runtime.compiled.program import Program
from mainstay.runtime.own_states import EVENT_TIMERS, FIRED, PROCESSING_TIMERS
from mainstay.runtime.spec import KeySpec
from mainstay.state.info import StateInfo
from mainstay.state.values import PICKLED

_TOO_DEEP = (
    "its branches, loops, calls or expressions lie too deep within each other for Python's own "
    "compiler. Divide them, or put the outer ones into one condition."
)
_POSITIONAL = Parameter.POSITIONAL_ONLY
_KINDS = ("value", "reducing", "aggregating", "timer")
_OF_TIMERS = (EVENT_TIMERS.name, PROCESSING_TIMERS.name, FIRED.name)
"""States of the runtime's own, beside those of a function with timers."""


def compiled(
    function: Any,
    key: KeySpec,
    schema: pa.Schema,
    out: pa.Schema,
    infos: tuple[StateInfo, ...],
    uid: str,
) -> Program:
    """The program of a function with ``compiled=True``, or an error that says what it lacks."""
    name = f"operator {uid!r}: {type(function).__name__}"
    process = getattr(type(function).process, "__func__", type(function).process)
    declared = inspect.getattr_static(function, "process")
    if declared is not process or not isinstance(process, FunctionType):
        raise NotCompiledError(f"{name} cannot be compiled: process is no method. {WITHOUT}")
    if any(info.timer is not None for info in infos):
        infos = tuple(info for info in infos if info.name not in _OF_TIMERS)
    _check_states(name, infos)
    try:
        return _Compiling(function, process, key, schema, out, infos, name).program()
    except RecursionError:
        raise NotCompiledError(f"{name} cannot be compiled: {_TOO_DEEP} {WITHOUT}") from None


def _check_states(name: str, infos: tuple[StateInfo, ...]) -> None:
    for info in infos:
        problem = _problem(info)
        if problem:
            raise NotCompiledError(
                f"{name} cannot be compiled: the state {info.name!r} {problem} {WITHOUT}"
            )


def _problem(info: StateInfo) -> str:
    """What is in the way of a state."""
    if info.kind.name not in _KINDS:
        return (
            f"is of the kind {info.kind.name}. Compiled code has ValueState, ReducingState, "
            "AggregatingState and Timer."
        )
    if info.ttl is not None:
        return "has a time to live, which compiled code does not heed."
    if info.value.ddl == PICKLED:
        return 'has no declared type. Declare one, as in ValueState("long").'
    if of_state(info.value.arrow) is None:
        return (
            f"is declared as {info.value.ddl}. Compiled code keeps numbers, booleans, texts, "
            "dates, timestamps, and structs of these."
        )
    return ""


class _Compiling:
    """One function that becomes a kernel."""

    def __init__(
        self,
        function: Any,
        process: FunctionType,
        key: KeySpec,
        schema: pa.Schema,
        out: pa.Schema,
        infos: tuple[StateInfo, ...],
        name: str,
    ) -> None:
        self._function, self._process, self._name = function, process, name
        self._key, self._schema, self._out, self._infos = key, schema, out, infos
        self._source = written(process, f"{name}.process()")

    def program(self) -> Program:
        first = Emission(self._out)
        self._draft(first)
        # What comes from one column alone is known now, and is not computed.
        second = Emission(self._out, seen=first.seen)
        second.settle()
        kernel = self._draft(second)
        arguments = self._arguments(kernel, second)
        text = _text(kernel, arguments)
        _check_depth(self._name, text)
        return kernel.program(text, second.uses(), arguments)

    def _parameters(self) -> list[str]:
        """The names of self, row and ctx."""
        signature = inspect.signature(self._process, follow_wrapped=False)
        kinds = {each.kind for each in signature.parameters.values()}
        names = list(signature.parameters)
        if len(names) != 3 or not kinds <= {Parameter.POSITIONAL_OR_KEYWORD, _POSITIONAL}:
            node = self._source.node
            told = ", ".join(names)
            remedy = f"Write process(self, row, ctx). {WITHOUT}"
            self._source.refuse(node, f"process() takes {told or 'nothing'}", remedy)
        return names

    def _draft(self, emission: Emission) -> Kernel:
        kernel = Kernel(self._name, self._function, self._key, self._schema, self._infos)
        node = self._source.node
        names = self._parameters()
        is_generator = inspect.isgeneratorfunction(self._process)
        frame = Frame(
            kernel,
            self._source,
            self._process,
            (("process", ""),),
            "v_",
            (lambda *_: None) if is_generator else emission.returned,
            callers=(self._process,),
            emits=emission.yielded,
            is_generator=is_generator,
        )
        things = (Thing("self", self._function), Value(Type("row"), ()), Thing("ctx"))
        frame.bound = dict(zip(names, things, strict=True))
        statements.function(frame, node)
        return kernel

    def _arguments(self, kernel: Kernel, emission: Emission) -> list[tuple[str, str]]:
        """The names and types of what the kernel is given, in the order of ``Program``."""
        told = [("progress", "int64[:]*"), ("count", "int64"), ("group", "int64[:]")]
        told += [(name, f"{dtype(use.form)}[:]") for use, name in kernel.columns.items()]
        for constant, name in kernel.constants.items():
            told.append((name, dtype(constant.form)))
            if constant.optional:
                told.append((f"{name}_ok", "bool"))
        told.append(("literals", "int64[:]"))
        for number in range(len(self._infos)):
            for end, type_ in kernel.state_parts(number):
                told.append((f"S{number}_{end}", f"{type_}[:]*"))
            told.append((f"S{number}_w", "bool[:]*"))
        return [*told, *emission.arguments(), ("room", "int64")]


def _check_depth(name: str, text: str) -> None:
    """Refuse a kernel that cannot be compiled even to Python's own code."""
    try:
        compile(text, f"<kernel of {name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError):
        raise NotCompiledError(f"{name} cannot be compiled: {_TOO_DEEP} {WITHOUT}") from None


def _text(kernel: Kernel, arguments: list[tuple[str, str]]) -> str:
    """The function as text: a loop over rows, with states read before each and written behind."""
    lines = [f"def kernel({', '.join(name for name, _ in arguments)}):"]
    lines += ["    n = progress[1]", "    for i in range(progress[0], count):"]
    lines.append("        g = group[i]")
    lines += [f"        {name} = {zero}" for name, zero in kernel.write.zeros.items()]
    behind = []
    for number in range(len(kernel.infos)):
        name = states.prefix(number)
        for end, zero in kernel.state(number).parts:
            read = READS[part_dtype(zero)]
            lines.append(f"        {name}_{end} = {read}(S{number}_{end}[g])")
        lines.append(f"        {name}_w = False")
        behind.append(f"        if {name}_w:")
        for end, _ in kernel.state(number).parts:
            behind.append(f"            S{number}_{end}[g] = {name}_{end}")
        behind.append(f"            S{number}_w[g] = True")
    lines.append("        while True:")
    lines.append(kernel.write.text(3))
    lines += behind
    lines += ["        progress[1] = n", "        progress[0] = i + 1", ""]
    return "\n".join(lines)
