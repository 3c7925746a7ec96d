"""``read_state`` and the data source ``mainstay``: a state as a DataFrame.

::

    spark.dataSource.register(StateDataSource)
    spark.read.format("mainstay").option("path", "./snapshots").option("operator", "totals") \\
        .option("state", "total").load()

Each Spark task reads some key-groups from the storage. With ``pushdown`` a filter on the key makes
Spark read the key-groups of those keys and no others. It is off unless asked for: Spark plans all
scans of one loaded source by the filters that it has pushed last (seen in Spark 4.3), so a query
that reads the same DataFrame twice, with different filters, would lose rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from mainstay.errors import GraphError, SnapshotStorageError
from mainstay.inspect.columns import StateColumns
from mainstay.inspect.key_values import ALL_KEYS, key_values
from mainstay.inspect.reading import LATEST, Origin, StateSlice, StateView, UnitsSlice
from mainstay.masking import masked
from mainstay.schema import format_schema, format_type
from mainstay.schema.sizes import cut
from mainstay.snapshot.storage import is_remote
from mainstay.spark.launch.active import prepare_active
from mainstay.spark.launch.cluster import cluster_of, is_of_connect
from mainstay.spark.launch.spark_errors import summary
from mainstay.spark.states.filters import groups_left
from mainstay.spelling import did_you_mean, unended

FORMAT = "mainstay"
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
LEAST_PARTITIONS = 8
BATCH_ROWS = 10_000

_OPTIONS = ("path", "operator", "state", "epoch", "partitions", "key_group", "pushdown")


def read_state(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    operator: str,
    state: str,
    epoch: int | str = LATEST,
    key: Any = ALL_KEYS,
    partitions: int | None = None,
    pushdown: bool = False,
) -> DataFrame:
    """A state of a job at an epoch as a DataFrame.

    ``path`` is a snapshot directory, ``./snapshots#17``, or a savepoint. The latest epoch is the
    one that is the latest now. ``key`` reads one key, and of the files only its key-group: a value,
    None for the null key, or for a key of several columns a tuple or a dictionary. ``partitions``
    is the least number of Spark tasks, where there are as many key-groups.

    ``pushdown`` makes filters on the key spare the other key-groups. A DataFrame that is read so
    must not occur twice in one query.
    """
    origin = Origin.open(os.fspath(path), epoch)
    view = origin.view(operator, state)
    if not pushdown:
        return frame_of(spark, origin, view, key=key, partitions=partitions)
    if str(spark.conf.get(PUSHDOWN_CONF, "false")).lower() != "true":
        raise GraphError(
            f"read_state(pushdown=True) needs {PUSHDOWN_CONF}, which is off. Set it to true with "
            "spark.conf.set(...), or read one key with key=."
        )
    frame = frame_of(spark, origin, view, key=key, partitions=partitions, pushdown=True)
    # A query without any filter would be planned by those of the query before.
    return frame.where(F.col(quoted(view.columns.group_column)).isNotNull())


def frame_of(
    spark: SparkSession,
    origin: Origin,
    view: StateView,
    *,
    key: Any = ALL_KEYS,
    partitions: int | None = None,
    pushdown: bool = False,
) -> DataFrame:
    """The DataFrame of a state of an origin."""
    columns = view.columns
    options = {"path": origin.name, "operator": columns.operator, "state": columns.schema.name}
    options["partitions"] = str(partitions or parallelism_of(spark))
    options["pushdown"] = str(pushdown).lower()
    values = None if key is ALL_KEYS else key_values(columns, key)
    if values is not None:
        options["key_group"] = str(view.groups_of([values])[0])
    prepare(spark)
    if not _is_registered(spark):
        spark.dataSource.register(StateDataSource)
    frame = _loaded(spark, options)
    return frame if values is None else frame.where(_is_key(columns, values))


def _loaded(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    try:
        frame = spark.read.format(FORMAT).options(**options).load()
        if is_of_connect(spark):
            # Asked now, because a server opens the state no sooner than it must.
            _ = frame.schema
        return frame
    except AnalysisException as error:
        refused = error
    # Spark opens the state in another Python, and shows what that raises as a text in an error of
    # its own. Opened here once more, it is raised as itself: an epoch of a running job may go.
    view_of(options)
    if is_of_connect(spark):
        raise SnapshotStorageError(_not_there(options["path"], str(refused))) from None
    raise refused


def _not_there(place: str, said: str) -> str:
    """This process can open the state, and the server's cannot."""
    what = "the credentials and endpoints of the store in its environment"
    need = what if is_remote(place) else "this folder on a disk that it sees, too"
    return (
        f"the Spark Connect server cannot open {place!r}, which this process can: "
        f"{unended(masked(summary(said)))}. The server's process and its executors read the state "
        f"themselves, so each needs {need}. Set that where the server is started."
    )


def _is_registered(spark: SparkSession) -> bool:
    """Spark warns of each registration that replaces another; Spark Connect does not tell."""
    if is_of_connect(spark):
        return False
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(sources.dataSourceExists(FORMAT))


def prepare(spark: SparkSession) -> None:
    """What the start of a job does: check the workers' Python, give a cluster this package."""
    cluster_of(spark).prepare()


def parallelism_of(spark: SparkSession) -> int:
    """How many tasks are worth it; a Spark Connect session does not tell."""
    return cluster_of(spark).parallelism() or LEAST_PARTITIONS


# ---------------------------------------------------------------- one key


def _is_key(columns: StateColumns, values: tuple[Any, ...]) -> Column:
    condition = F.lit(True)
    named = zip(columns.key_columns(), columns.key_fields(), values, strict=True)
    for name, field, value in named:
        literal = F.lit(value).cast(format_type(field.type))
        condition = condition & F.col(quoted(name)).eqNullSafe(literal)
    return condition


def quoted(name: str) -> str:
    """A column's name as Spark's expressions spell it."""
    return "`" + name.replace("`", "``") + "`"


# ---------------------------------------------------------------- the data source


class StateDataSource(DataSource):
    """``format("mainstay")``.

    Options: ``path``, ``operator``, ``state``; ``epoch`` (a number, or the latest), ``partitions``
    (the least number), ``key_group`` (only this one) and ``pushdown`` (``true`` to let filters on
    the key spare other key-groups; see above for what must not be done then).
    """

    @classmethod
    def name(cls) -> str:
        # Spark asks for it on the driver when the source is registered: the one moment before it
        # is opened in another Python. In Spark's workers there is no session.
        prepare_active()
        return FORMAT

    def schema(self) -> str:
        return format_schema(pa.schema(view_of(self.options).columns.fields()))

    def reader(self, schema: Any) -> DataSourceReader:
        is_filtered = self.options.get("pushdown", "false").lower() == "true"
        kind = FilteredStateReader if is_filtered else StateReader
        return kind(view_of(self.options), self.options)


def view_of(options: Mapping[str, str]) -> StateView:
    """The state that options name."""
    for name in options:
        if name not in _OPTIONS:
            raise GraphError(
                f'format("{FORMAT}") has no option {name!r}; its options are '
                f"{', '.join(_OPTIONS)}.{did_you_mean(name, _OPTIONS)}"
            )
    for name in ("path", "operator", "state"):
        if not options.get(name):
            raise GraphError(
                f'format("{FORMAT}") needs the option {name!r}; its options are '
                f"{', '.join(_OPTIONS)}."
            )
    origin = Origin.open(options["path"], options.get("epoch", LATEST))
    return origin.view(options["operator"], options["state"])


@dataclass
class StatePartition(InputPartition):
    """What one Spark task reads."""

    part: StateSlice | UnitsSlice | None


class StateReader(DataSourceReader):
    """Plans and reads the slices of a state."""

    def __init__(self, view: StateView, options: Mapping[str, str]) -> None:
        self.view = view
        self._least = _number(options, "partitions", LEAST_PARTITIONS)
        group = _number(options, "key_group", -1)
        self.groups: Sequence[int] | None = None if group < 0 else (group,)

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: a part has all that is needed to read it, and the manifest may be large."""
        return {}

    def partitions(self) -> Sequence[InputPartition]:
        slices = self.view.slices(self._least, self.groups)
        # Without any partition Spark would call ``read`` with none.
        return [StatePartition(part) for part in slices] or [StatePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, StatePartition)
        if partition.part is not None:
            table = partition.part.read()
            for first, after in cut(table):
                rows = table.slice(first, after - first).combine_chunks()
                yield from rows.to_batches(BATCH_ROWS)


class FilteredStateReader(StateReader):
    """Reads only the key-groups that the filters leave."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Narrow what is read. Spark applies all filters itself, as keys share key-groups."""
        left = groups_left(self.view, filters)
        if left is not None:
            self.groups = left if self.groups is None else sorted({*left} & {*self.groups})
        return filters


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    given = options.get(name)
    if given is None:
        return default
    if not given.isdigit():
        raise GraphError(f'format("{FORMAT}"): the option {name}={given!r} must be a number.')
    return int(given)
