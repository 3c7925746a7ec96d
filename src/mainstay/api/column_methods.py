"""What a stream can do with its columns: choose, name, compute and leave them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstay.api.columns import Chosen, dropped, extended, renamed, select_node, selected
from mainstay.api.expressions import Column
from mainstay.api.graph import GraphBuilder
from mainstay.api.settings import Settings
from mainstay.own_frames import with_own_frames
from mainstay.plan import nodes
from mainstay.plan.logical import Input

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mainstay.api.stream import Stream


@with_own_frames
class ColumnMethods:
    """The methods of a stream that give its rows with other columns."""

    schema: pa.Schema
    _builder: GraphBuilder
    _origins: tuple[Input, ...]

    def _named(self, method: str, settings: Settings | None = None) -> str:
        raise NotImplementedError

    def _then(
        self,
        name: str,
        node: nodes.Node,
        schema: pa.Schema,
        settings: Settings,
        **more: Any,
    ) -> Stream:
        raise NotImplementedError

    def select(
        self,
        *columns: str | Column,
        uid: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        chain: bool | None = None,
        **named: str | Column | pc.Expression,
    ) -> Stream:
        """Some columns, in this order, and others under a name:
        ``select("auction", highest="price", total=ms.col("price") * 2)``.

        A name stands for a column; an expression of columns is evaluated on whole batches. The
        stream has no key afterwards, also where it had one.
        """
        settings = Settings(
            uid=uid, parallelism=parallelism, max_parallelism=max_parallelism, chain=chain
        )
        where = self._named("select", settings)
        self._builder.check_settings(settings, where)
        chosen = selected(self.schema, columns, named, where)
        return self._chosen("select", chosen, settings)

    def with_columns(
        self,
        columns: Mapping[str, str | Column | pc.Expression] | None = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        chain: bool | None = None,
        **named: str | Column | pc.Expression,
    ) -> Stream:
        """All columns and some more: ``with_columns(total=ms.col("price") * ms.col("count"))``.

        One of a name that there is takes its place. All are made of the rows as they come, not of
        each other. The stream has no key afterwards.
        """
        settings = Settings(
            uid=uid, parallelism=parallelism, max_parallelism=max_parallelism, chain=chain
        )
        where = self._named("with_columns", settings)
        self._builder.check_settings(settings, where)
        chosen = extended(self.schema, columns, named, where)
        return self._chosen("with_columns", chosen, settings)

    def rename(
        self,
        names: Mapping[str, str] | None = None,
        *,
        uid: str | None = None,
        parallelism: int | None = None,
        max_parallelism: int | None = None,
        chain: bool | None = None,
        **named: str,
    ) -> Stream:
        """All columns, some under other names: ``rename(old="new")``, ``rename({"old": "new"})``.

        The time of an event stays what it is under its new name. The stream has no key afterwards.
        """
        settings = Settings(
            uid=uid, parallelism=parallelism, max_parallelism=max_parallelism, chain=chain
        )
        where = self._named("rename", settings)
        self._builder.check_settings(settings, where)
        chosen = renamed(self.schema, names, named, where)
        return self._chosen("rename", chosen, settings)

    def drop(self, *columns: str | Column, **settings: Unpack[Settings]) -> Stream:
        """All columns but these. The stream has no key afterwards."""
        where = self._named("drop", settings)
        return self._chosen("drop", dropped(self.schema, columns, where), settings)

    def _chosen(self, name: str, chosen: list[Chosen], settings: Settings) -> Stream:
        where = self._named(name, settings)
        node, schema = select_node(self._builder, self._origins, self.schema, chosen, where)
        return self._then(name, node, schema, settings)
