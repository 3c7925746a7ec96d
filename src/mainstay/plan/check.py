"""Checks of a logical graph: what can be known to be wrong before anything starts."""

from __future__ import annotations

import warnings
from collections import Counter

import cloudpickle

from mainstay.errors import GraphError
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.state.keygroups import MAX_MAX_PARALLELISM

MODES = ("exactly_once", "at_least_once")


def check_graph(graph: LogicalGraph) -> None:
    """Raise a ``GraphError`` that names the operator at fault, or return."""
    _check_settings(graph)
    _check_uids(graph)
    _check_ends(graph)
    for operator in graph.operators:
        _check_parallelism(operator, graph.max_parallelism)
        _check_shippable(operator)
        _warn_about_uid(operator)


def _check_settings(graph: LogicalGraph) -> None:
    if graph.mode not in MODES:
        raise GraphError(f"mode={graph.mode!r} is unknown; choose one of {MODES}.")
    if not 1 <= graph.max_parallelism <= MAX_MAX_PARALLELISM:
        raise GraphError(
            f"max_parallelism={graph.max_parallelism} is not within 1 and {MAX_MAX_PARALLELISM}."
        )


def _check_uids(graph: LogicalGraph) -> None:
    counts = Counter(operator.uid for operator in graph.operators)
    for uid, count in counts.items():
        if count > 1:
            names = [operator.name for operator in graph.operators if operator.uid == uid]
            raise GraphError(
                f"uid {uid!r} is used by {count} operators ({', '.join(names)}). State is found by "
                "uid: give each operator one of its own."
            )


def _check_ends(graph: LogicalGraph) -> None:
    if not graph.operators:
        raise GraphError("the job is empty. Begin with env.source(...) and end with .sink(...).")
    read = {given.upstream for operator in graph.operators for given in operator.inputs}
    for operator in graph.operators:
        if not operator.is_sink and operator.id not in read:
            raise GraphError(
                f"nothing reads what operator {operator.uid!r} ({operator.name}) emits. End the "
                "stream with .sink(...), or leave the operator out."
            )


def _check_parallelism(operator: LogicalOperator, most: int) -> None:
    if not 1 <= operator.parallelism <= most:
        raise GraphError(
            f"operator {operator.uid!r} has parallelism={operator.parallelism}, which is not "
            f"within 1 and max_parallelism={most}."
        )


def _check_shippable(operator: LogicalOperator) -> None:
    try:
        cloudpickle.dumps(operator.factory)
    except Exception as error:
        raise GraphError(
            f"operator {operator.uid!r} ({operator.name}) cannot be sent to the workers: "
            f"{type(error).__name__}: {error}. Open connections, files and locks in open(), not "
            "in the function's constructor or closure."
        ) from error


def _warn_about_uid(operator: LogicalOperator) -> None:
    if operator.states and not operator.has_own_uid:
        warnings.warn(
            f"operator {operator.uid!r} has state but no uid of its own. Its state is lost when "
            f'the program changes: write uid="...".',
            stacklevel=2,
        )
