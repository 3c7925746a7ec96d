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


class ReplacingEnvironment(Environment):
    """Builds a job whose sources are replaced by those of a test, by uid."""

    def __init__(self, inputs: Mapping[str, Source], **settings: Any) -> None:
        super().__init__(**settings)
        self._inputs = inputs
        for uid, source in inputs.items():
            if not isinstance(source, Source):
                raise GraphError(
                    f"the input for {uid!r} is a {type(source).__name__}; give it as "
                    'rows("schema", [...]).'
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
        given = self._inputs.get(uid) if isinstance(uid, str) else None
        if given is None:
            return self._unreplaced(source, uid, parallelism, watermark)
        assert uid is not None
        if not isinstance(source, Source) and not is_data_source(source):
            # The program is wrong, and says so as it would anywhere.
            return super().source(source, uid=uid, parallelism=parallelism, watermark=watermark)
        column = getattr(source, "malformed_column", None)
        _check_declared(source, given, column, uid)
        stream = super().source(given, uid=uid, parallelism=parallelism, watermark=watermark)
        if column is None or given.malformed_column is not None:
            return stream
        return WholeRows(stream, uid, _malformed_schema(source, column))

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
            if not self._inputs:
                raise
            raise GraphError(
                f"{error} (The inputs= of the test are for {sorted(self._inputs)} and do not "
                f"replace the source {uid!r}.{did_you_mean(uid, self._inputs)})"
            ) from error

    def from_dataframe(
        self,
        df: Any,
        *,
        uid: str,
        parallelism: int | None = None,
        allow_changed_query: bool = False,
    ) -> Stream:
        """A DataFrame that is replaced is not looked at; there may be no Spark."""
        if uid not in self._inputs:
            return super().from_dataframe(
                df, uid=uid, parallelism=parallelism, allow_changed_query=allow_changed_query
            )
        return super().source(self._inputs[uid], uid=uid, parallelism=parallelism)


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
