"""The environment of a test: sources by uid are those of the test, and the program's stay unused.

The source that the program gives is looked at only for what it declares. Its files, tables and
servers need not exist where the test runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mainstay.api.data_sources import is_data_source
from mainstay.api.environment import Environment
from mainstay.api.stream import Stream
from mainstay.api.watermark import Watermark
from mainstay.connectors.formats.malformed import malformed_type
from mainstay.errors import GraphError, MainstayError
from mainstay.runtime.connector import Source
from mainstay.schema import format_schema
from mainstay.spelling import did_you_mean
from mainstay.testing.listed import Listed


class ReplacingEnvironment(Environment):
    """Builds a job whose sources are replaced by those of a test, by uid.

    A list has the schema of the source that it replaces: ``inputs`` has it as a source then.
    """

    def __init__(self, inputs: Mapping[str, Source | list[Any]], **settings: Any) -> None:
        super().__init__(**settings)
        self._lists = {uid: each for uid, each in inputs.items() if isinstance(each, list)}
        self.inputs = {uid: each for uid, each in inputs.items() if isinstance(each, Source)}
        for uid, given in inputs.items():
            if uid not in self._names:
                raise GraphError(
                    f"the input for {uid!r} is a {type(given).__name__}; give it as a list, or as "
                    'rows("schema", [...]).'
                )

    @property
    def _names(self) -> list[str]:
        return [*self.inputs, *(uid for uid in self._lists if uid not in self.inputs)]

    def check_lists(self) -> None:
        """Refuse lists for sources that the job does not have."""
        unknown = [uid for uid in self._lists if uid not in self.inputs]
        known = sorted(o.uid for o in self.graph().operators if o.source is not None)
        if unknown:
            raise GraphError(
                f"inputs names {unknown}, but the job's sources are {known}."
                f"{did_you_mean(unknown[0], known)}"
            )

    def check_rescales(self, rescales: Sequence[int]) -> None:
        """Refuse what ``job.rescale`` would refuse."""
        if not isinstance(rescales, Sequence):
            raise GraphError(
                f"run: rescales={rescales!r} must be a list of parallelisms, as in rescales=[3, 1]."
            )
        for parallelism in rescales:
            self._builder.check_rescale(parallelism)

    def source(
        self,
        source: Source | Any,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        watermark: Watermark | None = None,
    ) -> Stream:
        if uid not in self._names:
            return self._unreplaced(source, uid, parallelism, watermark)
        assert uid is not None
        if not isinstance(source, Source) and not is_data_source(source):
            # The program is wrong, and says so as it would anywhere.
            return super().source(source, uid=uid, parallelism=parallelism, watermark=watermark)
        column = getattr(source, "malformed_column", None)
        given = self._given(uid, _declared(source), column)
        _check_declared(source, given, column, uid)
        stream = super().source(given, uid=uid, parallelism=parallelism, watermark=watermark)
        if column is None or given.malformed_column is not None:
            return stream
        return WholeRows(stream, uid, _malformed_schema(source, column))

    def _given(self, uid: str, declared: pa.Schema | None, column: str | None) -> Source:
        if uid not in self.inputs:
            if declared is None:
                raise GraphError(
                    f"the source {uid!r} of the job does not say its schema, so the list given for "
                    'it cannot be read: give it as rows("schema", [...]).'
                )
            if column is not None:
                declared = declared.remove(declared.get_field_index(column))
            self.inputs[uid] = Listed(declared, self._lists[uid], f"the list for {uid!r}")
        return self.inputs[uid]

    def _unreplaced(
        self,
        source: Any,
        uid: str | None,
        parallelism: int | None,
        watermark: Watermark | None,
    ) -> Stream:
        try:
            return super().source(source, uid=uid, parallelism=parallelism, watermark=watermark)
        except MainstayError as error:
            if not self._names:
                raise
            raise GraphError(
                f"{error} (The inputs= of the test are for {sorted(self._names)} and do not "
                f"replace the source {uid!r}.{did_you_mean(uid, self._names)})"
            ) from error

    def from_dataframe(
        self,
        df: Any,
        *,
        uid: str,
        parallelism: int | None = None,
        watermark: Watermark | None = None,
        in_order: bool = False,
        available_now: bool = False,
        allow_changed_query: bool = False,
    ) -> Stream:
        """A DataFrame that is replaced is not looked at; there may be no Spark."""
        if uid not in self._names:
            return super().from_dataframe(
                df,
                uid=uid,
                parallelism=parallelism,
                watermark=watermark,
                in_order=in_order,
                available_now=available_now,
                allow_changed_query=allow_changed_query,
            )
        given = self._given(uid, None, None)
        return super().source(given, uid=uid, parallelism=parallelism, watermark=watermark)


class WholeRows(Stream):
    """The stream of a replaced source that would put malformed records aside: there are none."""

    def __init__(self, stream: Stream, uid: str, malformed: pa.Schema) -> None:
        super().__init__(stream._builder, stream.schema, stream._origins)
        self._uid = uid
        self._malformed_schema = malformed
        self._malformed: Stream | None = None

    @property
    def malformed(self) -> Stream:
        if self._malformed is None:
            self._malformed = self.map_batches(
                _nothing, self._malformed_schema, uid=f"{self._uid}-malformed"
            )
        return self._malformed


def _nothing(batch: pa.RecordBatch) -> None:
    return None


def _declared(source: Any) -> pa.Schema | None:
    """The schema that a source has without looking anything up."""
    found = inspect.getattr_static(source, "schema", None)
    return found if isinstance(found, pa.Schema) else None


def _check_declared(source: Any, given: Source, column: str | None, uid: str) -> None:
    declared = _declared(source)
    if declared is None or given.schema == declared:
        return
    if column is not None:
        declared = declared.remove(declared.get_field_index(column))
    if given.schema != declared:
        raise GraphError(
            f"the rows given for source {uid!r} have the schema "
            f"{format_schema(given.schema)!r}, the job's source has {format_schema(declared)!r}."
        )


def _malformed_schema(source: Any, column: str) -> pa.Schema:
    declared = _declared(source)
    struct = malformed_type() if declared is None else declared.field(column).type
    return pa.schema([struct.field(number) for number in range(struct.num_fields)])
