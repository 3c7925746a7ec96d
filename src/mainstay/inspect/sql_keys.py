"""Which keys a statement can depend on, so that no more of a state is read than those.

DuckDB parses the statement (``json_serialize_sql``). A table is narrowed where it stands in the
``FROM`` of a ``SELECT``, alone or in inner joins, and where the ``WHERE`` beside it demands
constants for every column of its key. Rows of other keys do not pass that ``WHERE``, so the result
is the same without them. A state that is also read without such a condition, or by anything that
is not known here, is read as a whole: in doubt everything is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mainstay.inspect.columns import StateColumns

MOST_KEYS = 1000
_TABLES = {"BASE_TABLE", "JOIN", "SUBQUERY", "EMPTY", "EMPTY_FROM", "EXPRESSION_LIST"}
"""What may stand in a FROM. A function may read a table by a name that is a text."""

Keys = list[tuple[Any, ...]]


class UnsureError(Exception):
    """The statement has something of which it is not known what it reads."""


def keys_of_statement(
    tree: Mapping[str, Any], states: Mapping[str, StateColumns]
) -> dict[str, Keys | None]:
    """By state that is read, its keys that matter; None where all may. States not here are not
    narrowed either."""
    finder = _Finder({tuple(name.lower().rpartition(".")[::2]): name for name in states}, states)
    try:
        finder.walk(tree)
    except (UnsureError, KeyError, TypeError, ValueError, AttributeError):
        return {}
    return finder.found


class _Finder:
    """Walks through a parsed statement, from ``SELECT`` to ``SELECT``."""

    def __init__(
        self, names: Mapping[tuple[str, ...], str], states: Mapping[str, StateColumns]
    ) -> None:
        self._names, self._states = names, states
        self.found: dict[str, Keys | None] = {}

    def walk(self, node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                self.walk(each)
        elif isinstance(node, dict):
            self._walk(node)

    def _walk(self, node: dict[str, Any]) -> None:
        if "class" not in node and "sample" in node and "alias" in node:
            if node["type"] not in _TABLES:
                raise UnsureError(node["type"])
            if node["type"] == "BASE_TABLE":
                self._note(node, None)
                return
        narrowed: list[int] = []
        if node.get("type") == "SELECT_NODE":
            narrowed = self._narrow(node)
        for name, child in node.items():
            if name == "from_table" and narrowed:
                self._walk_beside(child, narrowed)
            else:
                self.walk(child)

    def _walk_beside(self, table: dict[str, Any], narrowed: list[int]) -> None:
        """A FROM without the tables that are dealt with."""
        if id(table) in narrowed:
            return
        if table["type"] != "JOIN":
            self.walk(table)
            return
        for name, child in table.items():
            if name in ("left", "right"):
                self._walk_beside(child, narrowed)
            else:
                self.walk(child)

    def _narrow(self, select: dict[str, Any]) -> list[int]:
        """Note the tables of a SELECT that its WHERE narrows; returns which they are."""
        tables = list(_joined(select["from_table"]))
        if select["sample"] is not None or select["where_clause"] is None:
            return []
        aliases = {str(each.get("alias", "")).lower() for each in select["select_list"]}
        conditions = list(_conjuncts(select["where_clause"]))
        narrowed = []
        for table in tables:
            state = self._state_of(table)
            if state is None or table["column_name_alias"] or table["at_clause"] is not None:
                continue
            columns = self._states[state]
            if not columns.is_keyed or aliases & {name.lower() for name in columns.key_columns()}:
                continue
            reader = _Conditions(table, columns, is_alone=len(tables) == 1)
            keys = reader.keys(conditions)
            if keys is not None:
                self._note(table, keys)
                narrowed.append(id(table))
        return narrowed

    def _state_of(self, table: dict[str, Any]) -> str | None:
        if table["type"] != "BASE_TABLE":
            return None
        return self._names.get((table["schema_name"].lower(), table["table_name"].lower()))

    def _note(self, table: dict[str, Any], keys: Keys | None) -> None:
        state = self._state_of(table)
        if state is None:
            return
        before = self.found.get(state, [])
        self.found[state] = None if keys is None or before is None else [*before, *keys]


def _joined(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a FROM joins: of inner joins both sides, everything else as one."""
    is_inner = (
        table["type"] == "JOIN"
        and table["join_type"] == "INNER"
        and table["ref_type"] in ("REGULAR", "CROSS")
        and not table["using_columns"]
        and table["sample"] is None
    )
    if is_inner:
        yield from _joined(table["left"])
        yield from _joined(table["right"])
    elif table["sample"] is None:
        yield table


def _conjuncts(condition: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if condition["type"] == "CONJUNCTION_AND":
        for each in condition["children"]:
            yield from _conjuncts(each)
    else:
        yield condition


class _Conditions:
    """What the conditions of a SELECT demand of the key of one of its tables."""

    def __init__(self, table: dict[str, Any], columns: StateColumns, *, is_alone: bool) -> None:
        fields = columns.fields()
        self._key = fields[: len(columns.key_fields())]
        name = str(table["alias"] or table["table_name"]).lower()
        # A struct of that name has fields: what stands before the point may be it, and no table.
        is_struct = any(f.name.lower() == name and pa.types.is_struct(f.type) for f in fields)
        self._prefixes = [] if is_struct else [[name]]
        if is_alone:
            self._prefixes.append([])

    def keys(self, conditions: Sequence[dict[str, Any]]) -> Keys | None:
        """All keys that meet the conditions; None where they do not say."""
        values: dict[str, list[Any]] = {}
        for condition in conditions:
            for field in self._key:
                demanded = self._values(condition, field)
                if demanded is not None:
                    values.setdefault(field.name, demanded)
        count = 1
        for field in self._key:
            count *= len(values.get(field.name, ())) or MOST_KEYS + 1
        if count > MOST_KEYS:
            return None
        return list(itertools.product(*(values[field.name] for field in self._key)))

    def _values(self, condition: dict[str, Any], field: pa.Field) -> list[Any] | None:
        """The values that a condition allows a column; None where it says nothing of it."""
        match condition["type"]:
            case "COMPARE_EQUAL":
                sides = (condition["left"], condition["right"])
                for column, constant in (sides, sides[::-1]):
                    if self._is_column(column, field):
                        return _constants([constant], field.type)
            case "COMPARE_IN":
                column, *constants = condition["children"]
                if self._is_column(column, field):
                    return _constants(constants, field.type)
            case "CONJUNCTION_OR":
                parts = [self._values(each, field) for each in condition["children"]]
                if all(part is not None for part in parts):
                    return [value for part in parts for value in part or ()]
        return None

    def _is_column(self, expression: dict[str, Any], field: pa.Field) -> bool:
        if expression["class"] != "COLUMN_REF":
            return False
        *prefix, name = (part.lower() for part in expression["column_names"])
        return name == field.name.lower() and prefix in self._prefixes


def _constants(expressions: Sequence[dict[str, Any]], type_: pa.DataType) -> list[Any] | None:
    """The values of constants, if all are of the very kind that a column has: what DuckDB would
    have to convert is left to it."""
    found = []
    for each in expressions:
        value = _constant(each)
        if pa.types.is_signed_integer(type_):
            bits = type_.bit_width - 1
            is_fit = type(value) is int and -(1 << bits) <= value < 1 << bits
        else:
            is_fit = pa.types.is_string(type_) and isinstance(value, str)
        if not is_fit:
            return None
        found.append(value)
    return found


def _constant(expression: dict[str, Any]) -> Any:
    """The value of a whole number or a text, as older and newer versions of DuckDB write it."""
    if expression["class"] != "CONSTANT":
        return None
    if (literal := expression.get("literal")) is not None:
        made = {"INTEGER": int, "STRING": str}.get(literal["kind"])
        return None if made is None else made(literal["text"])
    value = expression["value"]
    known = {"INTEGER", "BIGINT", "HUGEINT", "VARCHAR"}
    is_known = value["type"]["id"] in known and not value["is_null"]
    return value["value"] if is_known and value["type"]["type_info"] is None else None
