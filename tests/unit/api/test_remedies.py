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


@pytest.mark.parametrize(
    "name", ["apply_in_pandas_with_state", "match", "reduce", "transform_with_state"]
)
def test_what_goes_by_key_says_so_on_a_stream_without_one(name: str) -> None:
    said = rf"a Stream has no '{name}'\. It goes by key: call key_by\(\.\.\.\) first\."
    with pytest.raises(AttributeError, match=said):
        getattr(stream(), name)


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


def incremented(self: Any, row: Any, ctx: Any) -> Any:
    self.n += 1


def added_from_the_right(self: Any, row: Any, ctx: Any) -> Any:
    yield ctx.key, 1 + self.n


def extended(self: Any, row: Any, ctx: Any) -> Any:
    self.pages += ["p"]


def compared(self: Any, row: Any, ctx: Any) -> Any:
    yield ctx.key, int(self.n > 3)


@pytest.mark.parametrize(
    ("process", "said"),
    [
        (incremented, r"state 'n' is a ValueState.*self\.n\.get\(\).*self\.n\.update\(\.\.\.\)"),
        (added_from_the_right, r"state 'n' is a ValueState.*Read that with self\.n\.get\(\)"),
        (extended, r"state 'pages' is a ListState.*change it with self\.pages\.add\(\.\.\.\)"),
        (compared, r"state 'n' is a ValueState.*Read that with self\.n\.get\(\)"),
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


def test_a_reducing_state_with_type_and_function_swapped_says_their_order() -> None:
    with pytest.raises(GraphError, match=r"Write ReducingState\('long', your_function\)"):
        ms.ReducingState(max, "long")  # type: ignore[arg-type]


def test_a_state_with_an_argument_too_many_names_itself_and_what_it_takes() -> None:
    takes = r"takes value_type, and by name ttl, migrate, queryable\.$"
    said = rf"^ValueState\(\) was given 2 arguments .* {takes}"
    with pytest.raises(TypeError, match=said):
        ms.ValueState("long", "int")  # type: ignore[misc]


def test_something_that_ctx_does_not_have_is_answered_with_what_was_meant() -> None:
    def process(self: Any, row: Any, ctx: Any) -> Any:
        yield ctx.kye, 1

    with pytest.raises(MainstayError, match=r"no attribute 'kye'\. Did you mean 'key'\? ctx has"):
        counted(process)


def test_a_key_of_a_type_that_has_no_hash_names_the_type_as_it_is_written() -> None:
    def build(env: Any) -> None:
        source = ms.connectors.Rows("k array<long>", [([1],)])
        keyed = env.source(source, uid="in").key_by("k")
        keyed.aggregate(n=ms.count(), uid="n").sink(ms.connectors.Memory(), uid="out")

    with pytest.raises(GraphError, match=r"a key cannot have the type array<long>; use"):
        run(build)
