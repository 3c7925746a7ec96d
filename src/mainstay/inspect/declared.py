"""What the states of a new savepoint are declared as.

That is known from the savepoint that it is based on, from the program that will be started from it,
or from declarations that are given by hand, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mainstay.errors import GraphError, SavepointError
from mainstay.inspect.columns import StateColumns
from mainstay.runtime.coordinator.recovery import key_names_of, key_type_of, schema_of
from mainstay.runtime.spec import JobSpec
from mainstay.schema import format_type, to_schema
from mainstay.snapshot.manifest import Manifest, StateSchema
from mainstay.state.declaration import StateDeclaration
from mainstay.state.values import ValueType

StateName = tuple[str, str]
"""The uid of an operator, and the name of one of its states."""


@dataclass(frozen=True, slots=True)
class DeclaredOperator:
    """An operator and its states; without a parallelism where none is known.

    ``max_parallelism`` is the number of its key-groups where that is not the job's.
    """

    uid: str
    key_type: str | None
    key_names: tuple[str, ...]
    parallelism: int | None
    states: Mapping[str, StateSchema] = field(default_factory=dict)
    max_parallelism: int | None = None

    def key_groups(self, of_job: int) -> int:
        """How many key-groups it has in a job that has ``of_job`` of them."""
        return of_job if self.max_parallelism is None else self.max_parallelism

    def columns(self, state: str) -> StateColumns:
        return StateColumns(self.uid, self.states[state], self.key_type, self.key_names)


Declared = Mapping[str, DeclaredOperator]


def declared_by_manifest(manifest: Manifest) -> Declared:
    return {
        uid: DeclaredOperator(
            uid,
            stored.key_type,
            stored.key_names,
            stored.parallelism,
            {schema.name: schema for schema in stored.states},
            stored.max_parallelism,
        )
        for uid, stored in manifest.operators.items()
    }


def declared_by_program(job: JobSpec) -> Declared:
    return {
        operator.uid: DeclaredOperator(
            operator.uid,
            key_type_of(operator),
            key_names_of(operator),
            task.parallelism,
            {info.name: schema_of(info) for info in operator.states},
            None if operator.key is None else operator.max_parallelism,
        )
        for task, operator in job.operators()
    }


def declared_by_hand(
    declarations: Mapping[StateName, StateDeclaration], keys: Mapping[str, str]
) -> Declared:
    """From declarations as functions have them, and columns such as ``customer string``."""
    found: dict[str, DeclaredOperator] = {}
    for (uid, state), declaration in declarations.items():
        if not isinstance(declaration, StateDeclaration):
            raise GraphError(
                f"the declaration of {(uid, state)} is {declaration!r}. Give what the function "
                'declares, such as ValueState("long").'
            )
        if uid not in found:
            found[uid] = DeclaredOperator(uid, *_key_of(keys.get(uid)), None)
        schema = schema_of(replace(declaration.info(), name=state))
        if schema.redistribute is None and found[uid].key_type is None:
            raise GraphError(
                f"state {state!r} of operator {uid!r} is keyed, and its key is not known. Give its "
                f"columns: keys={{{uid!r}: 'customer string'}}."
            )
        found[uid] = replace(found[uid], states={**found[uid].states, state: schema})
    return found


def _key_of(columns: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The type and the names of a key as ``key_by`` makes them of such columns."""
    if columns is None:
        return None, ()
    # Whether a column may be null is no part of a key's type.
    fields = [pa.field(each.name, each.type) for each in to_schema(columns)]
    key = fields[0].type if len(fields) == 1 else pa.struct(fields)
    return format_type(ValueType.of(key).arrow), tuple(each.name for each in fields)


def joined(first: Declared, second: Declared) -> Declared:
    """All that the first declares, and what the second adds to it."""
    found = dict(first)
    for uid, operator in second.items():
        known = found.get(uid)
        if known is None:
            found[uid] = operator
            continue
        if operator.key_type != known.key_type and not set(operator.states) <= set(known.states):
            raise SavepointError(
                f"operator {uid!r} has keys of type {known.key_type} in the savepoint and of type "
                f"{operator.key_type} where its new states are declared. Declare the same key."
            )
        found[uid] = replace(known, states={**operator.states, **known.states})
    return found


def columns_of(declared: Declared, name: Any) -> StateColumns:
    """The columns of a state by its name; a ``SavepointError`` where it is declared nowhere."""
    is_name = isinstance(name, tuple) and len(name) == 2 and all(isinstance(n, str) for n in name)
    if not is_name:
        raise GraphError(f'states has {name!r}. Name each by operator and state: ("totals", "n").')
    uid, state = name
    if uid not in declared:
        raise SavepointError(
            f"operator {uid!r} is unknown; declared are {sorted(declared)}. Name one of them, or "
            "declare it: with program=<the Environment>, or with declarations= and keys=."
        )
    if state not in declared[uid].states:
        raise SavepointError(
            f"operator {uid!r} has no state {state!r}; declared are "
            f"{sorted(declared[uid].states)}. Name one of them, or declare it: with "
            "program=<the Environment>, or with declarations= and keys=."
        )
    return declared[uid].columns(state)
