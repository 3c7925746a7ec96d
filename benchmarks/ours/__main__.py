"""Measures one workload in one setting and prints one line of JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cloudpickle

import benchmarks
from benchmarks.ours import figures, price, rates, recovery
from benchmarks.ours.amount import Amount
from benchmarks.ours.result import Result
from benchmarks.ours.setting import PLACES, Setting, parse_setting


@dataclass(frozen=True, slots=True)
class Entry:
    """A workload: how it is measured, and what can be chosen about it."""

    run: Callable[[Setting, Amount], Result]
    variants: Sequence[str]


WORKLOADS = {
    "W1": Entry(rates.throughput, tuple(rates.W1)),
    "W2": Entry(rates.aggregation, tuple(rates.W2)),
    "W3": Entry(rates.latency, tuple(rates.W3)),
    "W4": Entry(price.price, tuple(price.VARIANTS)),
    "W5": Entry(recovery.downtime, tuple(recovery.VARIANTS)),
    "W6": Entry(rates.wordcount, tuple(rates.W6)),
    "W7": Entry(figures.figure, tuple(figures.VARIANTS)),
    "scaling": Entry(rates.scaling, ("process",)),
}


def _settings() -> str:
    lines = [f"  {name}: {', '.join(each.variants)}" for name, each in WORKLOADS.items()]
    places = " or ".join(PLACES)
    return "\n".join([f"settings are VARIANT-PLACE, where a place is {places}:", *lines])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ours",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_settings(),
    )
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--setting", default="", help="what is run and where; see below")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long it is measured")
    parser.add_argument("--large", action="store_true", help="states of 5 and 10 M keys too")
    parser.add_argument("--keys", type=int, action="append", help="only this size of state")
    chosen = parser.parse_args(arguments)
    amount = Amount(chosen.seconds, chosen.large, tuple(chosen.keys or ()))
    # Workers on Spark cannot import this package: what they need of it travels with the job.
    cloudpickle.register_pickle_by_value(benchmarks)
    entry = WORKLOADS[chosen.workload]
    result = entry.run(parse_setting(chosen.setting, entry.variants), amount)
    print(result.to_json(), flush=True)


if __name__ == "__main__":
    main()
