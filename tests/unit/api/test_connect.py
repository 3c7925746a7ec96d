"""Connected inputs: what may be connected, what is refused, and what a function sees."""

from __future__ import annotations

from typing import Any

import pytest

import mainstay as ms
from mainstay.connectors import Memory
from mainstay.errors import JobFailedError, UserFunctionError
from mainstay.testing import rows, run
from tests.unit.api.mistakes import SCHEMA, Both, Keyed, refused, source


class Two(ms.CoProcess):
    def process_left(self, row: Any, ctx: Any) -> Any:
        return "left", row.n

    def process_right(self, row: Any, ctx: Any) -> Any:
        return "right", row.m


class Three(ms.MultiProcess):
    def process_a(self, row: Any, ctx: Any) -> Any:
        return "a", row.n

    def process_b(self, row: Any, ctx: Any) -> Any:
        return "b", row.m

    def process_c(self, row: Any, ctx: Any) -> Any:
        return "c", len(row.name)


class Streams:
    """Streams of one environment, with and without a key."""

    def __init__(self) -> None:
        self.env = ms.Environment(max_parallelism=8)
        self.a, self.b, self.c = (source(self.env, uid) for uid in "abc")


OUT = "side string, n long"

# ---------------------------------------------------------------- two


def test_two_streams_without_keys_feed_a_co_process() -> None:
    def build(env: ms.Environment) -> None:
        a = env.source(rows("n long", [(1,), (2,)]), uid="a")
        b = env.source(rows("m long, more string", [(3, "x")]), uid="b")
        a.connect(b).process(Two(), OUT, uid="two").sink(Memory(), uid="out")

    assert sorted(run(build).output("out")) == [("left", 1), ("left", 2), ("right", 3)]


def test_the_class_of_a_function_says_whether_there_is_a_key() -> None:
    each = Streams()
    plain, by_key = each.a.connect(each.b), each.a.key_by("k").connect(each.b.key_by("k"))
    refused(lambda: plain.process(Both(), OUT), "'a'", "'b'", "CoProcess, not Both", "no key")
    refused(lambda: by_key.process(Two(), OUT), "CoKeyedProcess, not Two")

    class Stateful(Two):
        total = ms.ValueState("long")

    refused(lambda: plain.process(Stateful(), OUT), "keyed state (total)", "key_by")


def test_one_key_alone_is_no_key_of_both() -> None:
    each = Streams()
    refused(lambda: each.a.connect(each.b.key_by("k")), "only the right side", "'b'", "Key both")
    refused(lambda: each.a.key_by("k").connect(each.b), "right side", "'b'", "broadcast()")


# ---------------------------------------------------------------- several


def test_each_input_has_a_method_and_a_schema_of_its_own() -> None:
    def build(env: ms.Environment) -> None:
        a = env.source(rows("n long", [(1,)]), uid="a")
        b = env.source(rows("m long", [(2,)]), uid="b")
        c = env.source(rows("name string", [("xyz",)]), uid="c")
        env.connect(a=a, b=b, c=c).process(Three(), OUT, uid="three").sink(Memory(), uid="out")

    assert sorted(run(build).output("out")) == [("a", 1), ("b", 2), ("c", 3)]


def test_keyed_inputs_share_the_state_of_a_key_and_a_hidden_key_stays_hidden() -> None:
    class Shared(ms.MultiProcess):
        seen = ms.ListState("string")

        def process_a(self, row: Any, ctx: Any) -> None:
            self.seen.add(f"a{tuple(row)}")

        def process_b(self, row: Any, ctx: Any) -> None:
            self.seen.add(f"b{tuple(row)}")

    def build(env: ms.Environment) -> None:
        a = env.source(rows("n long", [(7,)]), uid="a").key_by(lambda row: row.n % 5, "long")
        b = env.source(rows("m long", [(2,)]), uid="b").key_by("m")
        env.connect(a=a, b=b).process(Shared(), OUT, uid="f").sink(Memory(), uid="out")

    state = run(build).state("f", "seen")
    assert {key: sorted(seen) for key, seen in state.items()} == {2: ["a(7,)", "b(2,)"]}


def test_what_cannot_be_connected_is_refused_with_its_name() -> None:
    each = Streams()
    connect = each.env.connect
    refused(lambda: connect(a=each.a), "at least two", "env.connect(orders=")
    refused(lambda: connect(a=each.a, b="b"), "b= needs a stream", "str")  # type: ignore[arg-type]
    refused(lambda: connect(a=each.a.key_by("k"), b=each.b), "b= (operator 'b')", "keyed like a=")
    other = source(ms.Environment())
    refused(lambda: connect(a=each.a, b=other), "two environments")
    keyed = each.a.key_by("k")
    refused(lambda: connect(a=keyed, b=each.b.key_by("n")), "different key types", "'b'")
    broadcast = {"a": each.a.broadcast(), "b": each.b.broadcast()}
    refused(lambda: connect(**broadcast), "all inputs", "('a', 'b')", "broadcast")


def test_the_methods_of_a_function_are_those_of_its_inputs() -> None:
    each = Streams()
    inputs = each.env.connect(a=each.a, b=each.b, c=each.c)

    class NoC(ms.MultiProcess):
        def process_a(self, row: Any, ctx: Any) -> None: ...
        def process_b(self, row: Any, ctx: Any) -> None: ...

    class Misspelt(Three):
        def process_d(self, row: Any, ctx: Any) -> None: ...

    class Short(Three):
        def process_b(self, row: Any) -> None: ...  # type: ignore[override]

    refused(lambda: inputs.process(NoC(), OUT), "no method process_c", "def process_c(self, row")
    refused(lambda: inputs.process(Misspelt(), OUT), "has process_d", "no input of that name")
    refused(lambda: inputs.process(Short(), OUT), "cannot be called", "def process_b(self, row")
    refused(lambda: inputs.process(Keyed(), OUT), "MultiProcess, not Keyed")


def test_timers_need_a_key() -> None:
    class Timed(Three):
        def on_timer(self, at: Any, ctx: Any) -> None: ...

    each = Streams()
    inputs = each.env.connect(a=each.a, b=each.b, c=each.c)
    refused(lambda: inputs.process(Timed(), OUT), "on_timer", "no key")


def test_explain_names_the_inputs_and_how_they_are_read() -> None:
    each = Streams()
    inputs = each.env.connect(a=each.a, b=each.b.partition_by("n"), c=each.c.broadcast())
    inputs.process(Three(), OUT, uid="three").sink(Memory(), uid="out")
    text = each.env.explain()
    assert "reads a by forward as a" in text
    assert "reads b by partition(n) as b" in text
    assert "reads c by broadcast as c" in text


# ---------------------------------------------------------------- broadcast state


class Limits(ms.CoKeyedProcess):
    limits = ms.BroadcastMapState("string", "long")

    def process_left(self, row: Any, ctx: Any) -> Any:
        return None

    def process_right(self, row: Any, ctx: Any) -> None:
        self.limits.put(row.k, row.n)


def limited(function: Any) -> Any:
    def build(env: ms.Environment) -> None:
        a = env.source(rows(SCHEMA, [("x", 1)] * 20), uid="a").key_by("k")
        b = env.source(rows(SCHEMA, [("x", 1), ("y", 2), ("x", 3)]), uid="b")
        a.connect(b.broadcast()).process(function, OUT, uid="f").sink(Memory(), uid="out")

    return run(build, parallelism=3)


def test_every_subtask_holds_all_of_broadcast_state() -> None:
    assert limited(Limits()).state("f", "limits") == [{"x": 3, "y": 2}] * 3


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.put("z", 1),
        lambda state: state.update({"z": 1}),
        lambda state: state.clear(),
        lambda state: state.remove("x"),
        lambda state: state.setdefault("z", 1),
    ],
)
def test_only_rows_of_the_broadcast_input_change_it(change: Any) -> None:
    class Forbidden(Limits):
        def process_left(self, row: Any, ctx: Any) -> None:
            change(self.limits)

    with pytest.raises(UserFunctionError, match=r"'limits' is broadcast state.*broadcast input"):
        limited(Forbidden())


def test_it_is_read_only_in_open() -> None:
    class Early(Limits):
        def open(self, ctx: Any) -> None:
            assert len(self.limits) == 0
            self.limits["x"] = 1

    with pytest.raises(UserFunctionError, match="in open"):
        limited(Early())


def test_a_function_without_a_broadcast_input_has_none() -> None:
    each = Streams()
    both = each.a.key_by("k").connect(each.b.key_by("k"))
    refused(lambda: both.process(Limits(), OUT), "broadcast state (limits)", "no such input")

    class Alone(ms.Process):
        rules = ms.BroadcastMapState("string", "long")

        def process(self, row: Any, ctx: Any) -> None: ...

    refused(lambda: each.c.process(Alone(), OUT), "broadcast state (rules)")


# ---------------------------------------------------------------- partitions


class Where(ms.Process):
    def process(self, row: Any, ctx: Any) -> Any:
        return str(ctx.subtask), row.n


def partitioned(by: Any, values: list[Any], schema: str = "n long") -> list[Any]:
    def build(env: ms.Environment) -> None:
        each = env.source(rows(schema, values), uid="in").partition_by(by)
        each.process(Where(), OUT, uid="where").sink(Memory(), uid="out")

    return sorted(run(build, parallelism=3).output("out"))


@pytest.mark.parametrize(
    "by", ["n", ms.col("n"), ms.col("n") + 3, lambda row: row.n, lambda row: row.n + 3 * 10**40]
)
def test_rows_go_to_the_subtask_that_the_number_says(by: Any) -> None:
    found = partitioned(by, [(n,) for n in range(-4, 5)])
    assert found == sorted((str(n % 3), n) for n in range(-4, 5))


def test_what_says_no_subtask_is_refused_where_the_graph_is_built() -> None:
    stream = source(ms.Environment())
    refused(lambda: stream.partition_by("k"), "partition_by", "'k' is of type string", "crc32")
    refused(lambda: stream.partition_by(ms.col("n") / 2), "type double")
    refused(lambda: stream.partition_by("nn"), "no column 'nn'")
    refused(lambda: stream.partition_by(lambda: 1), "cannot be called with 1 argument")
    refused(lambda: stream.partition_by("n").key_by("k"), "partition_by", "key_by", "undo")
    refused(lambda: stream.partition_by("n").rebalance(), "partition_by", "undo")
    refused(lambda: stream.key_by("k").partition_by("n"), "after key_by", "undo")


def test_what_a_partitioner_raises_is_told_with_its_operator() -> None:
    with pytest.raises(UserFunctionError, match=r"'in', subtask 0, in partition_by\(\): ZeroDiv"):
        partitioned(lambda row: 1 // row.n, [(0,)])
    with pytest.raises(JobFailedError, match=r"operator 'in': .* gave 1\.5 \(float\)"):
        partitioned(lambda row: 1.5, [(0,)])
    with pytest.raises(JobFailedError, match=r"operator 'in': partition_by\(n\): a row has null"):
        partitioned("n", [(None,)])


def test_a_partitioner_that_cannot_be_shipped_is_named() -> None:
    import threading

    lock = threading.Lock()
    env = ms.Environment()
    stream = source(env).partition_by(lambda row: int(lock.locked()))
    stream.process(Where(), OUT, uid="where").sink(Memory(), uid="out")
    refused(env.plan, "operator 'where'", "cannot be sent to the workers")
