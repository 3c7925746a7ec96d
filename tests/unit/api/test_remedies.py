"""Mistakes that a first job makes: the message says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import GraphError, MainstayError
from mainstay.testing import rows, run

SCHEMA = "name string, amount long"


class Give(ms.KeyedProcess):
    """Returns what a function of the row gives."""

    def __init__(self, give: Callable[[Any], Any]) -> None:
        self.give = give

    def process(self, row: Any, ctx: Any) -> Any:
        return self.give(row)


class Yield(Give):
    """Yields it."""

    def process(self, row: Any, ctx: Any) -> Any:
        yield self.give(row)


class NoContext(ms.KeyedProcess):
    def process(self, row: Any) -> Any:  # type: ignore[override]
        return None


def stream() -> ms.Stream:
    return ms.Environment().source(rows(SCHEMA, []), uid="in")


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda s: s.map(lambda row: row), r"map\(\).*needs the schema of the rows"),
        (lambda s: s.flat_map(lambda row: [row]), r"flat_map\(\).*needs the schema"),
        (lambda s: s.map_batches(lambda batch: batch), r"map_batches\(\).*needs the schema"),
        (lambda s: s.key_by("name").process(Give(len)), r"process\(\).*needs the schema"),
        (lambda s: s.map(lambda a, b: a, SCHEMA), "1 argument.*Write a function of one argument"),
        (
            lambda s: s.key_by("name").reduce(lambda row: row),
            "2 arguments.*Write a function of two",
        ),
        (
            lambda s: s.key_by("name").process(NoContext(), SCHEMA),
            r"process\(row.*Write def process\(self, row, ctx\)",
        ),
        (
            lambda s: s.key_by("name").process(lambda row, ctx: None, SCHEMA),
            r"needs a KeyedProcess.*plain function goes to map",
        ),
        (lambda s: s.key_by("name").process(Give, SCHEMA), r"the class Give.*Give\(...\)"),
        (lambda s: s.filter("amount > 5"), r"no condition.*ms.col"),
        (lambda s: s.sink(Memory), "the class Memory.*an instance"),
    ],
)
def test_a_mistake_in_the_program_is_refused_with_the_remedy(use: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        use(stream())


@pytest.mark.parametrize("kind", [Give, Yield])
@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda row: (row.nmae, 1), r"no column 'nmae'; its columns are name, amount.*mean 'name'"),
        (lambda row: (row["Name"], 1), r"no column 'Name'.*Did you mean 'name'"),
        (lambda row: 5, "operator 'p'.*5 is not a row.*name, amount"),
        (lambda row: pa.record_batch({"n": [1]}), r"(?s)not a row.*map_batches"),
        (lambda row: (row.name, "x"), "operator 'p', column 'amount'.*'x' of type str.*type long"),
        (lambda row: (row.name, 1, 2), r"operator 'p'.*3 values.*2 columns \(name, amount\)"),
        (lambda row: {"name": "a"}, "lacks amount"),
    ],
)
def test_a_row_that_does_not_fit_is_named_with_what_was_expected(
    kind: type[Give], give: Callable[[Any], Any], said: str
) -> None:
    def build(env: ms.Environment) -> None:
        keyed = env.source(rows(SCHEMA, [("a", 1)]), uid="in").key_by("name")
        keyed.process(kind(give), SCHEMA, uid="p").sink(Memory(), uid="out")

    with pytest.raises(MainstayError, match=said):
        run(build)


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda row: None, "None is not a row.*use filter"),
        (lambda row: [row, row, row], "3 values.*several rows.*flat_map"),
        (lambda row: [row, row], "several rows.*flat_map"),
    ],
)
def test_map_gives_one_row_for_a_row_and_says_what_gives_more_or_fewer(
    give: Callable[[Any], Any], said: str
) -> None:
    def build(env: ms.Environment) -> None:
        env.source(rows(SCHEMA, [("a", 1)]), uid="in").map(give, SCHEMA, uid="m").sink(
            Memory(), uid="out"
        )

    with pytest.raises(MainstayError, match=said):
        run(build)


# ---------------------------------------------------------------- states


def counted(process: Any) -> Any:
    class Counts(ms.KeyedProcess):
        n = ms.ValueState("long")
        pages = ms.ListState("string")

    Counts.process = process  # type: ignore[method-assign]

    def build(env: Any) -> None:
        rows = env.source(ms.connectors.Rows("k string", [("a",), ("b",)]), uid="in").key_by("k")
        rows.process(Counts(), "k string, n long", uid="n").sink(ms.connectors.Memory(), uid="out")

    return run(build)


def assigned(self: Any, row: Any, ctx: Any) -> Any:
    self.n = 1
    yield ctx.key, self.n


def appended(self: Any, row: Any, ctx: Any) -> Any:
    self.pages.append("p")


def put(self: Any, row: Any, ctx: Any) -> Any:
    self.n.put(1)


def misspelt(self: Any, row: Any, ctx: Any) -> Any:
    self.n.updte(1)


def handed_out(self: Any, row: Any, ctx: Any) -> Any:
    yield ctx.key, self.n


@pytest.mark.parametrize(
    ("process", "said"),
    [
        (assigned, r"Counts\.n is a ValueState.*Write self\.n\.update\(value\) to change it"),
        (appended, r"a ListState has no 'append'\. Write add\(value\)\."),
        (put, r"a ValueState has no 'put'\. Write update\(value\)\."),
        (misspelt, r"a ValueState has no 'updte'\. Did you mean 'update'\? It has "),
        (handed_out, r"a ValueState; get\(\) gives its value"),
    ],
)
def test_a_state_that_is_taken_for_a_value_says_how_it_is_used(process: Any, said: str) -> None:
    with pytest.raises(MainstayError, match=said):
        counted(process)
