"""What the in-flight rows of an edge are known by in a snapshot.

The name is made of what the job's author wrote: the uids of the two operators that the edge joins,
which output of the first one it carries, and which input of the second one it is. How operators are
chained, how many subtasks they have and which kind of edge it is may be different when the rows are
restored.

A uid that was not given is made from an operator's place among its like. Such a name also says how
all operators of that sort are joined (``wiring``): where that has changed, the uid may be another
operator's by now.
"""

from __future__ import annotations

import json
from typing import NamedTuple


class EdgeName(NamedTuple):
    """An edge between two operators, and the subtask that sent the rows.

    ``kind`` is how they were sent; empty in names that older versions wrote, which have the first
    operator of the sender's chain and a place there instead of the sender. ``side`` is the side
    output that the rows come from; names of the main output are written without it.
    """

    sender: str
    kind: str
    consumer: str
    port: int
    wiring: str | None = None
    subtask: int = 0
    side: str = ""
    place: int = 0

    @property
    def text(self) -> str:
        """The name as snapshots hold it."""
        return json.dumps([*self[: 7 if self.side else 6]])

    @property
    def is_old(self) -> bool:
        return not self.kind

    def __str__(self) -> str:
        before = "an operator" if self.is_old else f"operator {self.sender!r}"
        if self.side:
            before += f" (side output {self.side!r})"
        return f"from {before} to operator {self.consumer!r} (input {self.port})"


def edge_name(text: str) -> EdgeName:
    """A name as a snapshot holds it, of this version or an older one."""
    parts = json.loads(text)
    if isinstance(parts[1], str):
        return EdgeName(*parts)
    chain, place, consumer, port = parts
    return EdgeName(chain, "", consumer, port, place=place)
