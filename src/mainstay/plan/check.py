"""Checks of a logical graph: what can be known to be wrong before anything starts."""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import cloudpickle

from mainstay.errors import GraphError, named
from mainstay.plan.event_time import check_event_time, lateness_s, short_of_lateness
from mainstay.plan.logical import LogicalGraph, LogicalOperator
from mainstay.runtime.own_states import INCOMING, OUTGOING
from mainstay.spelling import did_you_mean
from mainstay.state.keygroups import MAX_MAX_PARALLELISM
from mainstay.state.values import PICKLED

MODES = ("exactly_once", "at_least_once", "unaligned")


def check_graph(graph: LogicalGraph) -> None:
    """Raise a ``GraphError`` that names the operator at fault, or return."""
    check_shape(graph)
    _check_ends(graph)
    _check_sinks(graph)
    check_event_time(graph)
    _warn_about_lateness(graph)
    for operator in graph.operators:
        if graph.mode == "unaligned":
            _check_names(operator)
        _check_shippable(operator)
        _warn_about_uid(operator)


def check_shape(graph: LogicalGraph) -> None:
    """The part of the checks without which there is no other graph to make of this one."""
    check_settings(graph.mode, graph.max_parallelism)
    if not graph.operators:
        raise GraphError("the job is empty. Begin with env.source(...) and end with .sink(...).")
    _check_uids(graph)
    for operator in graph.operators:
        _check_parallelism(operator, graph.most(operator))


def check_settings(mode: str, max_parallelism: int) -> None:
    """Settings that concern no operator in particular."""
    if mode not in MODES:
        raise GraphError(
            f"mode={mode!r} is unknown; choose one of {', '.join(MODES)}."
            + did_you_mean(mode, MODES)
        )
    if not 1 <= max_parallelism <= MAX_MAX_PARALLELISM:
        raise GraphError(
            f"max_parallelism={max_parallelism} is not within 1 and {MAX_MAX_PARALLELISM}."
        )


def check_no_pickles(graph: LogicalGraph) -> None:
    """Refuse whatever would be unpickled from a snapshot, with its name and what to do."""
    states = [
        f"{operator.uid}.{info.name}"
        for operator in graph.operators
        for info in operator.states
        if PICKLED in (info.value.ddl, info.map_key.ddl if info.map_key is not None else "")
    ]
    if states:
        raise GraphError(
            f"allow_pickle=False, but the states {', '.join(states)} have no declared type: their "
            'values would be pickled. Declare one, as in ValueState("long") or '
            'MapState("string", "array<double>").'
        )
    connectors = [
        operator.uid
        for operator in graph.operators
        for connector in (operator.source, operator.sink)
        if connector is not None and connector.keeps_pickles
    ]
    if connectors:
        raise GraphError(
            f"allow_pickle=False, but what {', '.join(connectors)} keeps in snapshots is pickled: "
            "the partitions and commit messages of PySpark data sources are. Use one of "
            "mainstay.connectors instead."
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
    read = {given.upstream for operator in graph.operators for given in operator.inputs}
    for operator in graph.operators:
        if not operator.is_end and operator.id not in read:
            raise GraphError(
                f"nothing reads what operator {operator.uid!r} ({operator.name}) emits. End the "
                "stream with .sink(...), or leave the operator out."
            )


def _check_sinks(graph: LogicalGraph) -> None:
    """Two sinks of a job cannot share a place that belongs to one alone."""
    owners: dict[str, LogicalOperator] = {}
    for operator in graph.operators:
        place = operator.sink.owned if operator.sink is not None else ""
        other = owners.setdefault(place, operator) if place else operator
        if other is not operator:
            raise GraphError(
                f"operator {operator.uid!r} ({type(operator.sink).__name__}) writes to {place!r}, "
                f"as operator {other.uid!r} does, and a directory belongs to one sink. Give it "
                "another directory, or write both streams with one sink: "
                "stream.union(other).sink(...)."
            )


def _check_parallelism(operator: LogicalOperator, most: int) -> None:
    if not 1 <= operator.parallelism <= most:
        raise GraphError(
            f"operator {operator.uid!r} has parallelism={operator.parallelism}, which is not "
            f"within 1 and max_parallelism={most}."
        )


def _check_names(operator: LogicalOperator) -> None:
    reserved = {info.name for info in (INCOMING, OUTGOING)}
    for info in operator.states:
        if info.name in reserved:
            raise GraphError(
                f"operator {operator.uid!r} ({operator.name}) has a state {info.name!r}, which is "
                'what in-flight rows are kept under with mode="unaligned". Call it another name.'
            )


def _check_shippable(operator: LogicalOperator) -> None:
    try:
        cloudpickle.dumps((operator.node, operator.states, operator.inputs))
    except Exception as error:
        raise GraphError(
            f"operator {operator.uid!r} ({operator.name}) cannot be sent to the workers: "
            f"{named(error)}. Open connections, files and locks in open(), not "
            "in the function's constructor or closure."
        ) from error


def _warn_about_uid(operator: LogicalOperator) -> None:
    if operator.states and not operator.has_own_uid:
        warnings.warn(
            f"operator {operator.uid!r} has state but no uid of its own. Its state is lost when "
            f'the program changes: write uid="...".',
            stacklevel=level_of_caller(),
        )


def _warn_about_lateness(graph: LogicalGraph) -> None:
    for window, before in short_of_lateness(graph):
        warnings.warn(
            f"operator {window.uid!r} ({window.name}) takes results of {before.uid!r} for late: "
            f"they are up to {lateness_s(before):g} s behind the watermark. Give it at least the "
            f"same: window(..., lateness={lateness_s(before):g}).",
            stacklevel=level_of_caller(),
        )


def level_of_caller() -> int:
    """How far up the stack the job's author is, seen from the caller: a warning points there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("mainstay."):
        frame, level = frame.f_back, level + 1
    return level
