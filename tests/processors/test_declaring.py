"""A processor is run once while the graph is built; what it raises there names its method."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import mainstay as ms
from mainstay.errors import GraphError


class Failing(StatefulProcessor):
    def __init__(self, at: str) -> None:
        self.at = at

    def init(self, handle: Any) -> None:
        self.fail("init")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return iter([])

    def close(self) -> None:
        self.fail("close")

    def fail(self, method: str) -> None:
        if method == self.at:
            raise SystemExit("gone")


@pytest.mark.parametrize("method", ["init", "close"])
def test_what_a_method_raises_while_the_graph_is_built_names_it(method: str) -> None:
    env = ms.Environment(spark="embedded")
    keyed = env.source(ms.connectors.Rows("k string", []), uid="in").key_by("k")
    with pytest.raises(GraphError, match=rf"{method}\(\) of Failing failed while .*SystemExit"):
        keyed.transform_with_state(Failing(method), "k string", uid="f")
