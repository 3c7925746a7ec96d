"""A kind of state is one value: whoever adds one tells nobody else."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from mainstay.errors import RestoreError
from mainstay.inspect.columns import StateColumns
from mainstay.state.backends.contract import BackendSettings, KeyedBackend, Place
from mainstay.state.backends.heap.settings import HeapSettings
from mainstay.state.info import StateInfo
from mainstay.state.keyed import KeyContext, ValueHandle
from mainstay.state.keygroups import KeyGroupRange
from mainstay.state.kind import StateKind
from mainstay.state.kinds import KINDS, LIST, ONE_VALUE, VALUE, kind_named
from mainstay.state.peeking import given_value
from mainstay.state.ttl import Ttl
from mainstay.state.ttl_tables import TtlValues
from mainstay.state.upgrade import plan_state, schema_of
from mainstay.state.values import ValueType
from mainstay.testing.memory_disk import MemoryRocksSettings
from tests.contract.sqlite_backend import SqliteSettings

BACKENDS = [HeapSettings(), MemoryRocksSettings(1 << 16), SqliteSettings()]


class HighestHandle(ValueHandle):
    """Keeps the highest of the values it was given."""

    __slots__ = ()

    def offer(self, value: int) -> None:
        kept = self.get()
        self.update(value if kept is None else max(kept, value))


HIGHEST = StateKind("highest", "value", HighestHandle, given_value, TtlValues, ONE_VALUE)


@pytest.fixture(autouse=True)
def _highest_is_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "highest", HIGHEST)


def info_of(**more: Any) -> StateInfo:
    return StateInfo("top", HIGHEST, ValueType.of("long"), **more)


def opened(settings: BackendSettings, info: StateInfo) -> tuple[KeyedBackend, KeyContext]:
    context = KeyContext()
    context.now_us = lambda: 1
    groups = KeyGroupRange(0, 7)
    return settings.open(Place([info], ValueType.of("string"), groups, 8, context, "t")), context


@pytest.mark.parametrize("ttl", [None, Ttl("1 day")])
@pytest.mark.parametrize("settings", BACKENDS, ids=lambda each: type(each).__name__)
def test_every_backend_keeps_a_new_kind_of_a_known_shape(settings: Any, ttl: Any) -> None:
    backend, context = opened(settings, info_of(ttl=ttl))
    context.current_key = "a"
    for value in (3, 9, 4):
        backend.handles["top"].offer(value)
    assert backend.peek("top", "a") == 9
    *_, tables = backend.encode(backend.freeze())
    again, _ = opened(settings, info_of(ttl=ttl))
    for table in tables:
        list(again.apply(table))
    assert again.peek("top", "a") == 9


def test_a_manifest_names_it_and_a_program_finds_it_again() -> None:
    schema = schema_of(info_of())
    assert schema.kind == "highest"
    assert kind_named(schema.kind) is HIGHEST
    assert pickle.loads(pickle.dumps(info_of())).kind == HIGHEST
    shown = StateColumns("op", schema, "string", ("name",)).fields()
    assert [field.name for field in shown] == ["name", "top", "key_group"]


def test_kinds_of_one_family_are_exchanged_and_others_are_not() -> None:
    stored = schema_of(info_of())
    assert plan_state("op.top", stored, replace(info_of(), kind=VALUE)).changes == (
        "highest to value",
    )
    with pytest.raises(RestoreError, match="stored as highest of long"):
        plan_state("op.top", stored, replace(info_of(), kind=LIST))


def test_a_kind_that_is_not_known_is_named_with_those_that_are() -> None:
    with pytest.raises(RestoreError, match=r"kind 'lowest'.*knows value, .*newer"):
        kind_named("lowest")
