"""The inputs of a query as streams; one that no query asks for is not read."""

from __future__ import annotations

from collections.abc import Mapping

import mainstay as ms


class Inputs:
    """``inputs["bid"]`` is the stream of bids; its source is made when it is asked for first.

    Events carry watermarks; the side input does not. ``delay`` is how much events may be out of
    order.
    """

    def __init__(
        self, env: ms.Environment, sources: Mapping[str, ms.connectors.Source], delay: str = "0s"
    ) -> None:
        self._env, self._sources, self._delay = env, sources, delay
        self._streams: dict[str, ms.Stream] = {}

    def __getitem__(self, name: str) -> ms.Stream:
        if name not in self._streams:
            source = self._sources[name]
            timed = ms.Watermark("at", delay=self._delay) if "at" in source.schema.names else None
            self._streams[name] = self._env.source(source, uid=name, watermark=timed)
        return self._streams[name]
