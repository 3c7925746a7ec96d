"""Which query a DataFrame of Spark Connect is, by what its server and its client know of it.

The server tells the analysed plan as a text. Paths and options of what is read are in the client's
own plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ANALYSED, _NEXT = "== Analyzed Logical Plan ==", "\n== "


def analysed_plan(df: Any) -> str:
    """The analysed plan; the line of column types that Spark puts before it is left out."""
    text = str(df._explain_string(mode="extended"))
    section = text.partition(_ANALYSED)[2].partition(_NEXT)[0].strip()
    return section.partition("\n")[2]


def facts_read(df: Any) -> list[str]:
    """What the leaves of a plan read: format, paths and options, or a table's name."""
    return sorted(_reads(df._plan.to_proto(df.sparkSession.client)))


def _reads(message: Any) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.name == "Read":
            yield _described(value)
            continue
        is_map = field.message_type.GetOptions().map_entry
        several = value.values() if is_map else value
        for each in several if field.is_repeated else (value,):
            if hasattr(each, "ListFields"):
                yield from _reads(each)


def _described(read: Any) -> str:
    """A map has no order of its own."""
    if not read.HasField("data_source"):
        return str(read)
    source = read.data_source
    options = sorted(f"{key}={source.options[key]}" for key in source.options)
    return "\n".join([source.format, *source.paths, *options])
