"""How the operators without a uid of their own are joined, as one short text.

Their uids are numbers among operators of the same name, so in a changed program the same uid may be
another operator's. Where the text is the same, the uids are those of the same operators.
"""

from __future__ import annotations

import json
from zlib import crc32

from mainstay.plan import nodes
from mainstay.plan.logical import Input, LogicalGraph


def wiring_of(graph: LogicalGraph) -> str:
    """A checksum of the uids that were not given, and of what each of these operators reads."""
    unnamed = [
        [operator.uid, [_reads(graph, given) for given in operator.inputs]]
        for operator in graph.operators
        if not operator.has_own_uid and not isinstance(operator.node, nodes.Combiner)
    ]
    return f"{crc32(json.dumps(unnamed).encode()):08x}"


def _reads(graph: LogicalGraph, given: Input) -> str | list[str]:
    operator = graph.operator(given.upstream)
    if isinstance(operator.node, nodes.Combiner):
        return _reads(graph, operator.inputs[0])
    return [operator.uid, given.side] if given.side else operator.uid
