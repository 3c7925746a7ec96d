"""Declarations: which states a function has, under which names, and their use out of place."""

from __future__ import annotations

import operator

import pytest

from mainstay.errors import GraphError, KeywordError, MainstayError, SchemaError
from mainstay.state.declaration import (
    AggregatingState,
    ListState,
    MapState,
    OperatorListState,
    ReducingState,
    ValueState,
)
from mainstay.state.declared_states import declarations_of


class Base:
    total = ReducingState("long", operator.add)
    seen = ValueState("timestamp")


def described(function: object) -> list[tuple[str, str, str]]:
    return [(info.name, info.kind.name, info.value.ddl) for info in declarations_of(function)]


def test_states_are_named_after_their_attributes_in_order_of_writing():
    assert described(Base()) == [("total", "reducing", "long"), ("seen", "value", "timestamp")]


def test_states_of_base_classes_come_first():
    class Derived(Base):
        clicks = ListState("string")

    assert [info.name for info in declarations_of(Derived())] == ["total", "seen", "clicks"]


def test_a_derived_class_may_declare_a_state_anew_or_take_it_away():
    class Anew(Base):
        seen = ListState("date")

    class Without(Base):
        seen = None

    assert described(Anew()) == [("total", "reducing", "long"), ("seen", "list", "date")]
    assert described(Without()) == [("total", "reducing", "long")]


def test_states_of_several_base_classes_come_together():
    class Other:
        other = MapState("string", "long")

    class Both(Base, Other):
        pass

    assert {info.name for info in declarations_of(Both())} == {"total", "seen", "other"}


def test_one_declaration_under_two_names_is_two_states():
    class Twins:
        one = two = ValueState("long")

    assert [info.name for info in declarations_of(Twins())] == ["one", "two"]


def test_a_declaration_that_is_set_on_a_class_later_has_its_name_all_the_same():
    class Late:
        pass

    Late.added = ValueState("long")  # type: ignore[attr-defined]
    assert [info.name for info in declarations_of(Late())] == ["added"]


def test_a_state_that_is_declared_on_an_instance_is_refused():
    class Mistaken:
        def __init__(self) -> None:
            self.total = ValueState("long")

    with pytest.raises(GraphError, match=r"Mistaken\.total .* body of the class"):
        declarations_of(Mistaken())


def test_a_function_without_states_has_none():
    assert declarations_of(object()) == ()
    assert declarations_of(lambda row: row) == ()


def test_a_setting_that_does_nothing_is_refused():
    with pytest.raises(KeywordError, match="shiny"):
        ReducingState("long", operator.add, shiny=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "declared",
    [
        lambda **setting: ValueState("long", **setting),
        lambda **setting: ListState("long", **setting),
        lambda **setting: MapState("string", "long", **setting),
        lambda **setting: ReducingState("long", operator.add, **setting),
    ],
)
def test_a_state_is_queryable_unless_it_says_that_it_is_not(declared):
    assert declared().info().queryable
    hidden = declared(queryable=False)
    assert not hidden.info().queryable
    assert "queryable=False" in repr(hidden)
    with pytest.raises(GraphError, match="queryable='no' must be True or False"):
        declared(queryable="no")


def test_what_a_declaration_says_is_in_its_info():
    function = object()
    total = ReducingState("long", operator.add).info()
    assert (total.function, total.is_keyed) == (operator.add, True)
    pages = MapState("string", "array<long>").info()
    assert pages.map_key is not None
    assert (pages.map_key.ddl, pages.value.ddl) == ("string", "array<long>")
    average = AggregatingState(function, "struct<n:long>").info()  # type: ignore[arg-type]
    assert (average.function, average.value.ddl) == (function, "struct<n:long>")
    offsets = OperatorListState("long", redistribute="union").info()
    assert (offsets.redistribute, offsets.is_keyed) == ("union", False)


def test_a_state_of_no_declared_type_is_pickled():
    assert ValueState().info().value.ddl == "pickle"
    assert MapState().info().map_key.ddl == "pickle"


def test_an_unknown_redistribution_is_refused_with_the_known_ones():
    with pytest.raises(GraphError, match=r"redistribute='shuffle'.*split.*union.*broadcast"):
        OperatorListState("long", redistribute="shuffle")


def test_a_type_that_does_not_exist_is_refused_when_declared():
    with pytest.raises(SchemaError):
        ValueState("lnog")


@pytest.mark.parametrize("key", ["array<long>", "map<int,int>", "struct<a:array<int>>"])
def test_a_map_key_is_a_scalar_or_a_struct_of_scalars(key):
    with pytest.raises(SchemaError, match="a map key cannot be or contain"):
        MapState(key, "long")


ONE = {"get": (), "clear": ()}


@pytest.mark.parametrize(
    ("state", "calls"),
    [
        (ValueState("long"), ONE | {"update": (1,), "get_many": ([1],), "put_many": ([1], [1])}),
        (ListState("long"), ONE | {"add": (1,), "extend": ([1],), "update": ([1],)}),
        (
            MapState("long", "long"),
            {"get": (1,), "put": (1, 1), "remove": (1,), "contains": (1,)}
            | {"keys": (), "values": (), "items": (), "clear": ()},
        ),
        (ReducingState("long", operator.add), ONE | {"add": (1,)}),
        (AggregatingState(None), ONE | {"add": (1,)}),  # type: ignore[arg-type]
        (OperatorListState("long"), ONE | {"add": (1,), "extend": ([1],), "update": ([1],)}),
    ],
)
def test_a_state_is_of_no_use_outside_a_running_job(state, calls):
    state.__set_name__(object, "clicks")
    for method, arguments in calls.items():
        with pytest.raises(MainstayError, match=r"'clicks' was used outside a running job.*run\("):
            getattr(state, method)(*arguments)
