"""The state of a checkpoint as Spark's own data sources show it.

``state-metadata`` says which stateful operators there are and what their variables are called,
``statestore`` reads one variable of one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from mainstay.errors import RestoreError
from mainstay.spark.launch.spark_errors import summary
from mainstay.state.kinds import LIST, MAP, VALUE

GROUP_STATE = "applyInPandasWithState"
_TIMERS = "TimerState"
_KINDS = {"ValueState": VALUE.name, "ListState": LIST.name, "MapState": MAP.name}


@dataclass(frozen=True, slots=True)
class StoredVariable:
    """A state of a processor: its kind is one of ours, ``has_ttl`` whether its values expire."""

    name: str
    kind: str
    has_ttl: bool


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """A stateful operator of a query."""

    id: int
    name: str
    time_mode: str | None = None
    variables: tuple[StoredVariable, ...] = ()

    @property
    def is_processor(self) -> bool:
        """Whether it is a ``StatefulProcessor``."""
        return self.time_mode is not None

    @property
    def is_known(self) -> bool:
        """Whether its state can be taken over."""
        return self.is_processor or self.name == GROUP_STATE

    def __str__(self) -> str:
        return f"{self.id} ({self.name})"


def session_set_to(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session beside the given one, with its settings but for those that a query had."""
    found = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in settings.items():
        found.conf.set(name, value)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class StoredState:
    """The state of a checkpoint after one batch."""

    spark: SparkSession
    location: str
    batch: int

    def operators(self) -> list[StoredOperator]:
        """The stateful operators, by their ids."""
        try:
            found = self.spark.read.format("state-metadata").load(self.location).collect()
        except (PySparkException, Py4JError) as error:
            raise self._unreadable(error) from error
        by_id = {row.operatorId: _operator(row) for row in found}
        return [by_id[id] for id in sorted(by_id)]

    def variable(self, operator: StoredOperator, variable: StoredVariable) -> DataFrame:
        """A variable: ``key`` and ``value``, ``list_value``, or ``user_map_key`` and
        ``user_map_value``."""
        is_flat = str(variable.kind == MAP.name).lower()
        return self._read(operator, stateVarName=variable.name, flattenCollectionTypes=is_flat)

    def timers(self, operator: StoredOperator) -> DataFrame:
        """The timers of a processor: ``key`` and ``expiration_timestamp_ms``."""
        return self._read(operator, readRegisteredTimers="true")

    def group_states(self, operator: StoredOperator) -> DataFrame:
        """``key`` and ``value``: a struct of ``groupState`` and ``timeoutTimestamp``."""
        return self._read(operator)

    def _read(self, operator: StoredOperator, **options: str) -> DataFrame:
        reader = self.spark.read.format("statestore").options(**options)
        reader = reader.option("operatorId", operator.id).option("batchId", self.batch)
        try:
            return reader.load(self.location)
        except (PySparkException, Py4JError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> RestoreError:
        return RestoreError(
            f"the state of the checkpoint {self.location!r} cannot be read at batch {self.batch}: "
            f"{summary(str(error))}. Read it with the version of Spark that wrote it; if files of "
            "it are gone, there is nothing to take over."
        )


def _operator(row: Any) -> StoredOperator:
    about = json.loads(row.operatorProperties) if row.operatorProperties else {}
    variables: Sequence[dict[str, Any]] = about.get("stateVariables", ())
    return StoredOperator(
        int(row.operatorId),
        str(row.operatorName),
        about.get("timeMode"),
        tuple(
            StoredVariable(each["stateName"], _kind(each), bool(each["ttlEnabled"]))
            for each in sorted(variables, key=lambda each: str(each["stateName"]))
            if each["stateVariableType"] != _TIMERS
        ),
    )


def _kind(variable: dict[str, Any]) -> str:
    return _KINDS.get(variable["stateVariableType"], str(variable["stateVariableType"]))
