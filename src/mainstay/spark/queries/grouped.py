"""What ``df.groupBy(...)`` holds: a DataFrame, and which of its columns are the key.

Spark takes columns alone for its stateful functions. Here an alias or an expression is a column
that is added to the DataFrame, so that the function sees it among the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, GroupedData

from mainstay.errors import GraphError
from mainstay.spark.launch.cluster import is_of_connect
from mainstay.spark.queries.connect_groups import connect_columns, connect_kind, connect_names

_OTHER_KINDS = ("Rollup", "Cube", "Pivot", "GroupingSets")


@dataclass(frozen=True, slots=True)
class Grouped:
    """A DataFrame and the names of the columns that it is grouped by."""

    df: Any
    key: tuple[str, ...]


def grouped_of(given: Any, where: str) -> Grouped:
    """The DataFrame and the key of what ``groupBy`` gives."""
    check_grouped(given, where)
    df: Any = given._df
    columns = _columns(given)
    if not columns:
        raise GraphError(
            f"{where}: groupBy() names no column. Name those of the key; for one group of all rows "
            'say df.groupBy(F.lit(0).alias("all")).'
        )
    key = []
    for name, is_own, column in zip(*_resolved(df, columns), columns, strict=True):
        key.append(name)
        if not is_own:
            _check_new(df, name, where)
            df = df.withColumn(name, column)
    return Grouped(df, tuple(key))


def check_grouped(given: Any, where: str) -> None:
    """Refuse what is not the result of ``groupBy``."""
    if isinstance(given, DataFrame):
        raise GraphError(f'{where} needs groups: df.groupBy("id"), not the DataFrame itself.')
    if not isinstance(given, GroupedData) and not hasattr(given, "_grouping_cols"):
        raise GraphError(f'{where} needs df.groupBy("id"), not {type(given).__name__}.')
    kind = connect_kind(given) if is_of_connect(given) else _classic_kind(given)
    if kind is not None:
        raise GraphError(
            f"{where}: a {kind.lower()} has no key that a state could belong to. Use groupBy(...) "
            "with the columns of the key alone."
        )


def _classic_kind(given: Any) -> str | None:
    described = str(given._jgd.toString())
    return next((each for each in _OTHER_KINDS if described.endswith(f"type: {each}]")), None)


def _columns(grouped: Any) -> list[Any]:
    """The expressions of ``groupBy``, each as a column of PySpark."""
    if is_of_connect(grouped):
        return connect_columns(grouped)
    from pyspark.sql.classic.column import Column

    session = grouped._df.sparkSession
    to_column = session._jvm.org.apache.spark.sql.classic.ExpressionUtils.column
    expressions = grouped._jgd.groupingExprs()
    return [Column(to_column(expressions.apply(at))) for at in range(expressions.size())]


def _resolved(df: Any, columns: list[Any]) -> tuple[list[str], list[bool]]:
    """What each column is called, and whether it is one of the DataFrame's own.

    Spark gives every column of a plan an id, which it keeps when it is selected as it is.
    """
    if is_of_connect(df):
        return connect_names(df, columns)
    own = {id: df.columns[at] for at, (id, _) in enumerate(_outputs(df))}
    selected = _outputs(df.select(*columns))
    return [own.get(id, name) for id, name in selected], [id in own for id, _ in selected]


def _outputs(df: Any) -> list[tuple[int, str]]:
    output = df._jdf.queryExecution().analyzed().output()
    found = (output.apply(at) for at in range(output.size()))
    return [(int(each.exprId().id()), str(each.name())) for each in found]


def _check_new(df: Any, name: str, where: str) -> None:
    if name.lower() in (each.lower() for each in df.columns):
        raise GraphError(
            f"{where}: groupBy(...) makes a key {name!r}, and the DataFrame has another column of "
            "that name. Give the key a name of its own: .alias(...)."
        )
