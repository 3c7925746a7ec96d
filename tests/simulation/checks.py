"""What must hold when a scenario has been played: every input once, in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.simulation.compiled_ledgers import digest_of
from tests.simulation.graphs import UNORDERED
from tests.simulation.ledgers import BUCKETS
from tests.simulation.playing import Outcome


def check(outcome: Outcome) -> None:
    """Every input exactly once (or at least once) in state and output, order kept, sums right."""
    rows = [row for given in outcome.given.values() for row in given]
    story = outcome.simulation.story
    counts = Counter(row[0] for row in outcome.output)
    assert set(counts) == {row[0] for row in rows}, f"output lost or invented rows\n{story()}"
    doubled = [number for number, count in counts.items() if count > 1]
    may_double = outcome.scenario.mode == "at_least_once"
    assert may_double or not doubled, f"output doubled {doubled}\n{story()}"
    check_state(outcome, rows)
    if outcome.scenario.is_compiled and not may_double:
        check_digests(outcome, {row[0]: row for row in rows})
    if outcome.restored is not None:
        check_state(outcome.restored, rows)


def check_state(outcome: Outcome, rows: list[tuple[Any, ...]]) -> None:
    """The final state holds every input exactly once (or at least once), in order."""
    story = outcome.simulation.story
    by_key: dict[str, list[int]] = defaultdict(list)
    place = {row[0]: (row[1], row[2]) for row in rows}
    for row in rows:
        by_key[row[3]].append(row[0])
    if outcome.scenario.is_compiled:
        return check_compiled_state(outcome, by_key, rows)
    ids = outcome.state("ledger", "ids")
    assert set(ids) == set(by_key), f"keys differ\n{story()}"
    assert {k: set(v) for k, v in ids.items()} == {k: set(v) for k, v in by_key.items()}, story()
    if outcome.scenario.mode == "at_least_once":
        return
    for key, seen in ids.items():
        assert sorted(seen) == sorted(by_key[key]), f"state of {key} is {seen}\n{story()}"
        check_order(outcome.scenario.graph, seen, {row[0]: row for row in rows}, story)
    assert outcome.state("ledger", "count") == {k: len(v) for k, v in by_key.items()}, story()
    splits = {k: dict(Counter(place[number][0] for number in v)) for k, v in by_key.items()}
    assert outcome.state("ledger", "splits") == splits, story()
    recent = {k: [n for n in seen if n % 3] for k, seen in ids.items()}
    assert outcome.state("ledger", "recent") == {k: v for k, v in recent.items() if v}, story()
    check_shrinking_state(outcome, ids)
    check_namespaces(outcome, ids)
    check_aggregates(outcome, by_key, {row[0]: row for row in rows})
    check_operator_state(outcome, rows)


def check_compiled_state(
    outcome: Outcome, by_key: dict[str, list[int]], rows: list[tuple[Any, ...]]
) -> None:
    """What does not depend on the order in which a compiled ledger has seen its rows."""
    story = outcome.simulation.story
    counts = outcome.state("ledger", "count")
    assert set(counts) == set(by_key), f"keys differ\n{story()}"
    newest = {key: max(ids) for key, ids in by_key.items()}
    assert outcome.state("ledger", "newest") == newest, story()
    if outcome.scenario.mode == "at_least_once":
        assert all(counts[key] >= len(ids) for key, ids in by_key.items()), story()
        return
    assert counts == {key: len(ids) for key, ids in by_key.items()}, f"{counts}\n{story()}"
    means = {key: sum(ids) / len(ids) for key, ids in by_key.items()}
    assert outcome.state("ledger", "mean") == means, story()
    check_aggregates(outcome, by_key, {row[0]: row for row in rows})
    check_operator_state(outcome, rows)


def check_digests(outcome: Outcome, rows: dict[int, tuple[Any, ...]]) -> None:
    """What a compiled ledger has seen of each key, in the order in which it has numbered it."""
    story = outcome.simulation.story
    seen: dict[str, dict[int, int]] = defaultdict(dict)
    for number, _, _, key, _, place in outcome.output:
        seen[key][place] = number
    for key, numbered in seen.items():
        assert sorted(numbered) == list(range(1, len(numbered) + 1)), (
            f"{key}: {numbered}\n{story()}"
        )
        ids = [numbered[place] for place in sorted(numbered)]
        check_order(outcome.scenario.graph, ids, rows, story)
        expected = digest_of(key, ids)
        found = {name: outcome.state("ledger", name).get(key) for name in expected}
        assert found == expected, f"{key}: {found} is not {expected}\n{story()}"


def check_shrinking_state(outcome: Outcome, ids: dict[str, list[int]]) -> None:
    """What a plain loop over the ids of each key, in the order they were seen, comes to."""
    parity, slots, tail = {}, {}, {}
    for key, seen in ids.items():
        entries: dict[int, int] = {}
        kept: list[int] = []
        for number in seen:
            entries[number % 5] = number
            entries.pop((number + 1) % 5, None)
            kept = [*kept, number] if number % 6 else []
        slots[key] = entries
        if kept:
            tail[key] = kept
        if seen[-1] % 4:
            parity[key] = seen[-1]
    story = outcome.simulation.story
    assert outcome.state("ledger", "parity") == parity, story()
    assert outcome.state("ledger", "slots") == slots, story()
    assert outcome.state("ledger", "tail") == tail, story()


def check_namespaces(outcome: Outcome, ids: dict[str, list[int]]) -> None:
    """The same for what is kept by key and namespace."""
    buckets: Counter[Any] = Counter()
    last_of: dict[Any, list[int]] = defaultdict(list)
    for key, seen in ids.items():
        for number in seen:
            buckets[key, number % BUCKETS] += 1
            kept = last_of[key, "odd" if number % 2 else "even"]
            kept.append(number) if number % 7 else kept.clear()
    story = outcome.simulation.story
    assert outcome.state("ledger", "buckets") == dict(buckets), story()
    there = {pair: kept for pair, kept in last_of.items() if kept}
    assert outcome.state("ledger", "last_of") == there, story()


def check_aggregates(
    outcome: Outcome, by_key: dict[str, list[int]], rows: dict[int, tuple[Any, ...]]
) -> None:
    """The accumulators of each key are those of a plain loop over its rows."""
    if outcome.scenario.graph != "aggregates":
        return
    story = outcome.simulation.story
    kept = outcome.state("totals", "aggregates")
    assert set(kept) == set(by_key), story()
    for key, row in kept.items():
        ids = by_key[key]
        assert sorted(row.ids) == sorted(ids), f"{key} has {row.ids}\n{story()}"
        assert tuple(row)[1:] == (len(ids), sum(ids), max(ids), key), f"{key}: {row}\n{story()}"
        check_order("aggregates", row.ids, rows, story)


def check_order(graph: str, seen: list[int], rows: dict[int, tuple[Any, ...]], story: Any) -> None:
    """Rows of one split and one key keep their order wherever one path leads to the key."""
    last: dict[Any, int] = {}
    for number in seen:
        _, split, position, _, other = rows[number]
        if graph in UNORDERED or (graph == "diamond" and number % 2):
            continue  # dealt out in turn: they take many paths
        path: Any = (split, other) if graph in ("two_shuffles", "broadcast_side") else split
        path = (split, other, number % 2) if graph == "sides" else path
        assert last.get(path, -1) < position, f"{number} is out of order in {seen}\n{story()}"
        last[path] = position


def check_operator_state(outcome: Outcome, rows: list[tuple[Any, ...]]) -> None:
    story = outcome.simulation.story
    if outcome.scenario.graph == "diamond":
        passed = sorted(n for units in outcome.state("numbered", "passed") for n in units)
        assert passed == sorted(row[0] for row in rows if row[0] % 2 == 0), story()
    if outcome.scenario.graph == "sides":
        passed = sorted(n for units in outcome.state("numbered", "passed") for n in units)
        assert passed == sorted(row[0] for row in rows if row[0] % 2), story()
        counts = Counter(row[4] for row in rows)
        assert outcome.state("sorting", "count") == dict(counts), story()
    if outcome.scenario.graph in ("loop", "nested_loops", "side_loop"):
        visits: dict[int, int] = {}
        for of_key in outcome.state("around", "visits").values():
            visits.update(of_key)
        assert visits == {row[0]: row[4] + 1 for row in rows}, story()
    if outcome.scenario.graph == "two_shuffles":
        totals = Counter(row[4] for row in rows)
        assert outcome.state("batches", "total") == dict(totals), story()
