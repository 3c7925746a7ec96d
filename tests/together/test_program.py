"""The programs come to what the model says, in the simulation: neither knows of the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import mainstay as ms
from mainstay.testing import rows, run
from tests.together.checker import check_rows, check_state
from tests.together.generator import START_US, events, moves
from tests.together.model import Expected, expected_of_accounts, expected_of_orders
from tests.together.outputs import plain
from tests.together.program import BUILDS, EVENT, MOVE, Ends

COUNT = 240
START = datetime.fromtimestamp(START_US // 1_000_000, timezone.utc)


def event_rows(seed: int) -> list[tuple[Any, ...]]:
    return [
        (e.n, e.k, e.kind, e.deal, e.amount, START + timedelta(microseconds=e.at_us - START_US))
        for e in events(seed, COUNT)
    ]


def simulated(job: str, source: Any, outputs: Iterable[str], version: int, seed: int) -> Any:
    ends = Ends(source, {name: ms.connectors.Memory() for name in outputs})
    return run(lambda env: BUILDS[job](env, ends, version), seed=seed, crashes=2)


def differences(found: Any, expected: Expected) -> list[str]:
    told: list[str] = []
    for name, due in expected.outputs.items():
        output = Counter(tuple(map(plain, row)) for row in found.output(f"{name}-out"))
        told += check_rows(name, due, output)
    for name, values in expected.states.items():
        state = dict(found.state(*name.split(".")))
        told += check_state(name, values, {k: _dict(v) for k, v in state.items()})
    return told


def _dict(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else value


@pytest.mark.parametrize("version", [1, 3])
def test_orders_come_to_what_the_model_says(version: int) -> None:
    source = rows(EVENT, event_rows(version))
    expected = expected_of_orders(events(version, COUNT))
    found = simulated("orders", source, expected.outputs, version, seed=version)
    assert differences(found, expected) == []


@pytest.mark.parametrize("version", [1, 3])
def test_accounts_come_to_what_the_model_says(version: int) -> None:
    source = rows(MOVE, [(m.n, m.k, m.kind, m.amount) for m in moves(version, COUNT)])
    expected = expected_of_accounts(moves(version, COUNT))
    # An upsert keeps the last row of each key, and memory keeps all.
    balances = expected.outputs.pop("balances")
    names = [*expected.outputs, "balances"]
    found = simulated("accounts", source, names, version, seed=version)
    assert differences(found, expected) == []
    last = dict(found.output("balances-out"))
    assert Counter(last.items()) == balances
