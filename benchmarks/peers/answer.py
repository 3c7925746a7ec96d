"""What a system that is measured is asked on its command line, and the one line it answers with.

>>> python -m benchmarks.peers.bytewax W1 --setting processes --seconds 10
{"system": "bytewax", "setting": "processes", "workload": "W1", "records": 703312, ...}
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

WARM_UP_S = 5.0
"""What comes out in the first seconds is not counted: compilers compile and state fills up."""

Latencies = dict[str, float]


@dataclass(frozen=True)
class Request:
    """One workload in one setting, measured for so many seconds after the warm-up."""

    workload: str
    setting: str
    seconds: float


@dataclass(frozen=True)
class Window:
    """What passed the sink between the end of the warm-up and the end of the run."""

    records: int
    seconds: float
    began_at: float | None = None
    """By the clock of the machine, so that it can be looked up what the window cost."""

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0


def parser(settings: Mapping[str, Sequence[str]]) -> argparse.ArgumentParser:
    """``settings`` holds those of each workload; the first is the default."""
    made = argparse.ArgumentParser()
    made.add_argument("workload", choices=list(settings))
    made.add_argument("--setting")
    made.add_argument("--seconds", type=float, default=10.0)
    return made


def request(settings: Mapping[str, Sequence[str]], arguments: argparse.Namespace) -> Request:
    known = settings[arguments.workload]
    setting = arguments.setting or known[0]
    if setting not in known:
        raise SystemExit(
            f"{arguments.workload} has no setting {setting!r} here; take one of {', '.join(known)}"
        )
    return Request(arguments.workload, setting, arguments.seconds)


def window(samples: Sequence[tuple[float, int]], warm_until: float) -> Window:
    """The window in samples of (time, records so far), of which early ones are warm-up."""
    warm = [sample for sample in samples if sample[0] >= warm_until]
    if len(warm) < 2:
        raise SystemExit(
            f"{len(warm)} progress reports came after the warm-up and two are needed: "
            "measure for more seconds"
        )
    (began, before), (ended, after) = warm[0], warm[-1]
    return Window(after - before, ended - began, began)


def percentiles(latencies_ms: Sequence[float] | np.ndarray) -> Latencies:
    found = np.percentile(np.asarray(latencies_ms), [50, 99, 99.9])
    return dict(zip(("p50", "p99", "p99.9"), found.round(3).tolist(), strict=True))


def late(measured: Window, rate_per_s: float) -> str:
    """What a system says of itself when it could not carry the pace it was given."""
    is_late = abs(measured.records_per_s - rate_per_s) > 0.2 * rate_per_s
    return "; it did not keep up" if is_late else ""


def say(
    system: str,
    asked: Request,
    measured: Window,
    *,
    records_per_s: float | None = None,
    latency_ms: Latencies | None = None,
    verified: bool | None = None,
    note: str = "",
) -> None:
    """Print the answer. A rate is given where it is a sum over processes with their own windows."""
    rate = measured.records_per_s if records_per_s is None else records_per_s
    line = {
        "system": system,
        "setting": asked.setting,
        "workload": asked.workload,
        "records": measured.records,
        "seconds": round(measured.seconds, 3),
        "began_at": measured.began_at,
        "records_per_s": round(rate, 1),
        "latency_ms": latency_ms,
        "verified": verified,
        "note": note,
    }
    print(json.dumps(line), flush=True)
