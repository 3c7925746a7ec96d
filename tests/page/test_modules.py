"""The modules of the page that only compute, called in a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def modules(browser: Any, finished: tuple[Any, Path]) -> Any:
    """Calls a function of a module of the page, in a page."""
    page = browser.new_page()
    page.goto(finished[0].url)

    def call(module: str, function: str, *arguments: Any) -> Any:
        script = """async ([module, name, given]) => {
          const found = (await import(`/page/${module}`))[name](...given);
          return found?.places ? Object.fromEntries(found.places) : found;
        }"""
        return page.evaluate(script, [module, function, list(arguments)])

    yield call
    page.close()


def node(name: str) -> dict[str, Any]:
    return {"id": name, "along": 100, "across": 50}


def test_nodes_stand_behind_those_that_send_to_them_and_do_not_overlap(modules: Any) -> None:
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d"), ("d", "b")]
    sent = [{"from": a, "to": b, "isLoop": (a, b) == ("d", "b")} for a, b in edges]
    places = modules("layout.js", "layered", [node(name) for name in "abcd"], sent)
    u = {name: places[name]["u"] for name in "abcd"}
    assert u["a"] < u["b"] == u["c"] < u["d"]
    assert abs(places["b"]["v"] - places["c"]["v"]) >= 50


def test_a_graph_that_is_a_circle_is_laid_out_too(modules: Any) -> None:
    sent = [{"from": a, "to": b} for a, b in ("ab", "bc", "ca")]
    places = modules("layout.js", "layered", [node(name) for name in "abc"], sent)
    assert len({each["u"] for each in places.values()}) == 3


def test_the_difference_of_two_epochs_says_what_became_of_each_key(modules: Any) -> None:
    before = [{"k": 1, "total": 5, "key_group": 3}, {"k": 2, "total": 7, "key_group": 4}]
    after = [{"k": 2, "total": 9, "key_group": 4}, {"k": 3, "total": 1, "key_group": 5}]
    found = modules("difference.js", "difference", before, after, ["k"])
    said = {
        each["key"]["k"]: (each["how"], each.get("before"), each.get("after")) for each in found
    }
    assert said == {1: ("removed", 5, None), 2: ("changed", 7, 9), 3: ("added", None, 1)}


def test_entries_of_a_map_are_told_apart(modules: Any) -> None:
    before = [{"k": 1, "map_key": "a", "m": 1}, {"k": 1, "map_key": "b", "m": 2}]
    after = [{"k": 1, "map_key": "a", "m": 1}, {"k": 1, "map_key": "b", "m": 3}]
    found = modules("difference.js", "difference", before, after, ["k"])
    assert [each["how"] for each in found] == ["same", "changed"]


@pytest.mark.parametrize(
    ("line", "state", "key"),
    [
        ("7", {"key_type": "long", "key_names": ["k"]}, 7),
        ("7", {"key_type": "string", "key_names": ["k"]}, "7"),
        ('"7"', {"key_type": "string", "key_names": ["k"]}, "7"),
        ("9007199254740993", {"key_type": "long", "key_names": ["k"]}, "9007199254740993"),
        (
            "2026-01-01T00:00:00",
            {"key_type": "timestamp", "key_names": ["k"]},
            "2026-01-01T00:00:00",
        ),
        ("7, ab", {"key_type": "struct", "key_names": ["a", "b"]}, [7, "ab"]),
        ('["7", "a,b"]', {"key_type": "struct", "key_names": ["a", "b"]}, ["7", "a,b"]),
    ],
)
def test_a_key_is_sent_as_it_is_typed(modules: Any, line: str, state: Any, key: Any) -> None:
    assert modules("keys_input.js", "keyOf", line, state) == key


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *[(0, "0 s"), (0.0004, "400 µs"), (0.0042, "4.2 ms"), (0.25, "250 ms"), (3.14, "3.1 s")],
        *[(75, "1 min 15 s"), (7260, "2 h 1 min"), (90000, "1 d 1 h"), (None, "–")],
    ],
)
def test_durations_are_short_and_exact_enough(modules: Any, seconds: Any, shown: str) -> None:
    assert modules("format.js", "duration", seconds) == shown


def test_hot_keys_are_shown_with_their_operator_and_subtask_the_hottest_first(modules: Any) -> None:
    def subtask(number: int, *keys: tuple[str, float]) -> dict[str, Any]:
        hot = [{"key": key, "share": share} for key, share in keys]
        return {
            "subtask": number,
            "operators": [{"uid": "totals", "hot_keys": hot}, {"uid": "out"}],
        }

    task = {
        "subtasks": [subtask(0, ("a", 0.2)), subtask(1, ("b", 0.7), ("c", 0.1)), {"subtask": 2}]
    }
    found = modules("subtasks.js", "hotKeys", task)
    assert [(each["key"], each["subtask"]) for each in found] == [("b", 1), ("a", 0), ("c", 1)]
    assert {each["uid"] for each in found} == {"totals"}
