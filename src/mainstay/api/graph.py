"""The builder behind ``Environment`` and ``Stream``: adds operators and gives them uids."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import cloudpickle
import pyarrow as pa

from mainstay.api.settings import Settings
from mainstay.errors import GraphError
from mainstay.plan.logical import Input, LogicalGraph, LogicalOperator
from mainstay.plan.nodes import Node
from mainstay.quantities import whole_number
from mainstay.runtime.connector import Sink, Source
from mainstay.runtime.spec import Forward, KeySpec, SideSpec
from mainstay.spelling import did_you_mean, one_of
from mainstay.state.info import StateInfo
from mainstay.state.keygroups import MAX_MAX_PARALLELISM as LIMIT

Connector = TypeVar("Connector", bound=Source | Sink)


class GraphBuilder:
    """Collects the operators of a job in the order they are written."""

    def __init__(self, parallelism: int, max_parallelism: int) -> None:
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.operators: list[LogicalOperator] = []
        self._names: Counter[str] = Counter()
        self._uids: dict[str, LogicalOperator] = {}
        self.to_check: list[Callable[[], None]] = []
        """What has to hold of the graph when it is whole."""

    def add(
        self,
        name: str,
        node: Node,
        schema: pa.Schema | None,
        settings: Settings,
        *,
        inputs: tuple[Input, ...] = (),
        states: tuple[StateInfo, ...] = (),
        key: KeySpec | None = None,
        sides: tuple[SideSpec, ...] = (),
        beside: int | None = None,
    ) -> LogicalOperator:
        """Add an operator; one that is ``beside`` another has that one's parallelism."""
        uid, parallelism = settings.get("uid"), settings.get("parallelism")
        most, follows_job = settings.get("max_parallelism"), parallelism is None
        if beside is not None:
            other = self.operators[beside]
            parallelism, most = other.parallelism, other.max_parallelism
            follows_job = other.follows_job
        self.check_settings(settings, named(uid, name))
        operator = LogicalOperator(
            id=len(self.operators),
            uid=self._free_uid(name) if uid is None else self._checked_uid(uid, name),
            has_own_uid=uid is not None,
            name=name,
            node=node,
            schema=schema,
            parallelism=self.parallelism if parallelism is None else parallelism,
            max_parallelism=most,
            inputs=inputs if settings.get("chain") is not False else _unchained(inputs),
            states=states,
            key=key,
            follows_job=follows_job,
            sides=sides,
        )
        self.operators.append(operator)
        self._uids[operator.uid] = operator
        return operator

    def own(self, connector: Connector) -> Connector:
        """A source or sink for one operator alone: a copy, if another operator has it already.

        What it remembers at the coordinator, between plans or commits, is that operator's.
        """
        return of_its_own(connector, [c for op in self.operators for c in (op.source, op.sink)])

    def check_settings(self, settings: Settings, where: str) -> None:
        """Refuse settings that an operator cannot have."""
        chain, most = settings.get("chain"), settings.get("max_parallelism")
        if chain is not None and not isinstance(chain, bool):
            raise GraphError(
                f"{where}: chain={chain!r} must be True or False. chain=False has the operator run "
                "as a task of its own. If you mean a column of that name, call it another one."
            )
        if most is not None and whole_number(most, "max_parallelism", where=where) > LIMIT:
            raise GraphError(f"{where}: max_parallelism={most} is more than {LIMIT}.")
        given = settings.get("parallelism")
        given = self.parallelism if given is None else given
        self._check_most(whole_number(given, "parallelism", where=where), most, where)

    def check_rescale(self, parallelism: int) -> None:
        """Refuse a parallelism that the job cannot be rescaled to."""
        where = f"rescale({parallelism!r})"
        self._check_most(whole_number(parallelism, "parallelism", where=where), None, where)
        for each in self.operators:
            if each.follows_job:
                which = f"{where}, operator {each.uid!r} ({each.name})"
                self._check_most(parallelism, each.max_parallelism, which)

    def _check_most(self, parallelism: int, own: int | None, where: str) -> None:
        most = self.max_parallelism if own is None else own
        if parallelism > most:
            raise GraphError(
                f"{where}: parallelism={parallelism} is more than max_parallelism={most}. Lower "
                "it, or set a higher max_parallelism before the job has state."
            )

    def _free_uid(self, name: str) -> str:
        while True:
            self._names[name] += 1
            uid = f"{name}-{self._names[name]}"
            if uid not in self._uids:
                return uid

    def _checked_uid(self, uid: Any, name: str) -> str:
        if not isinstance(uid, str) or not uid.strip():
            raise GraphError(f"uid={uid!r} of operator {name} must be a text that is not empty.")
        other = self._uids.get(uid)
        if other is not None:
            raise GraphError(
                f"uid {uid!r} of operator {name} is that of another operator ({other.name}) "
                "already. State is found by uid: give each operator one of its own."
            )
        return uid

    def graph(self, max_parallelism: int, mode: str) -> LogicalGraph:
        for check in self.to_check:
            check()
        return LogicalGraph(tuple(self.operators), max_parallelism, mode)


def _unchained(inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """The inputs of an operator that does not run in one call with what is before it."""
    return tuple(
        replace(each, partitioning=Forward(is_chained=False))
        if isinstance(each.partitioning, Forward)
        else each
        for each in inputs
    )


def of_its_own(connector: Connector, taken: Iterable[Any]) -> Connector:
    """The connector itself, or a copy where it is taken."""
    if not any(connector is other for other in taken):
        return connector
    try:
        copy: Connector = pickle.loads(cloudpickle.dumps(connector))
    except Exception:
        # What cannot be copied cannot be shipped: the check of the graph says so and names it.
        return connector
    return copy


def named(uid: Any, name: str, after: str = "") -> str:
    """An operator as messages name it: by its uid, or else by where it stands."""
    if isinstance(uid, str):
        return f"operator {uid!r} ({name})"
    return f"{name}() after {after}" if after else f"{name}()"


def column_number(schema: pa.Schema, column: Any, where: str) -> int:
    """The place of a column, or an error that names the ones there are."""
    number = schema.get_field_index(column) if isinstance(column, str) else -1
    if number < 0:
        hint = ' Write each column by itself: key_by("a", "b").' if _is_listed(column) else ""
        raise GraphError(
            f"{where}: there is no column {column!r}; the stream has "
            f"{one_of(schema.names)}.{hint}{did_you_mean(column, schema.names)}"
        )
    return int(number)


def _is_listed(column: Any) -> bool:
    return isinstance(column, list | tuple)
