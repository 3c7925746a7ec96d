"""Who is measured at what: every system, its settings, and the environment it needs."""

from __future__ import annotations

from dataclasses import dataclass

WORKLOADS = {
    "W1": "per-record Python function with keyed value state, every record emitted",
    "W2": "built-in aggregation: sum and count per key",
    "W3": "latency from the creation of a record to the sink",
    "W6": "wordcount on strings (records are words)",
    "W4": "what snapshots cost",
    "W5": "recovery and rescaling",
    "W7": "the figures of the paper, in shape",
}
TABLES = frozenset({"W4", "W5", "W7"})
"""Ours alone: each answer is a table of its own, with its own repeats, so one run is enough."""

OURS = "mainstay"


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a system runs: this interpreter, or a virtual environment with these packages."""

    name: str
    distribution: str
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """What has to be on the path beside Python."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A system in one setting at one workload: what one row of a table is about."""

    workload: str
    system: str
    setting: str
    environment: str
    program: tuple[str, ...]
    """The interpreter's arguments that start it."""

    def command(self, python: str, seconds: float) -> list[str]:
        asked = [self.workload, "--setting", self.setting, "--seconds", f"{seconds:g}"]
        return [python, *self.program, *asked]

    def __str__(self) -> str:
        return f"{self.workload} {self.system} ({self.setting})"


# The versions are pinned so that two reports can be compared; docs/benchmarks.md says why these.
ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment("here", "mainstay"),
        Environment(
            "spark",
            "pyspark",
            ("pyspark==4.3.0", "pandas>=2.2,<3", "pyarrow>=15", "numpy>=1.24", "protobuf>=5"),
            ("java",),
        ),
        Environment("flink", "apache-flink", ("apache-flink==2.3.0",), ("java",)),
        Environment("bytewax", "bytewax", ("bytewax==0.21.1", "pyarrow>=15", "numpy>=1.24")),
    )
}

# system: (environment, module, settings by workload); the first setting of ours is the one that
# every other row is compared with.
_SYSTEMS: dict[str, tuple[str, str, dict[str, tuple[str, ...]]]] = {
    OURS: (
        "here",
        "benchmarks.ours",
        {
            "W1": (
                "process-spark",
                "process_batches-spark",
                "process-processes",
                "process_batches-processes",
            ),
            "W2": ("aggregate-spark", "aggregate-processes"),
            "W3": ("process-spark", "process-processes"),
            "W6": ("process-spark", "batches-spark", "aggregate-spark"),
            "W4": ("cost-spark", "kept-spark", "memory-spark"),
            "W5": ("kill-spark", "rescale-spark"),
            "W7": ("alignment-spark", "interval-spark", "stop_the_world-spark"),
        },
    ),
    "no engine": (
        "here",
        "benchmarks.peers.baseline",
        {"W1": ("dict loop",), "W2": ("pyarrow group_by",)},
    ),
    "bytewax": (
        "bytewax",
        "benchmarks.peers.bytewax",
        {
            "W1": ("processes", "threads", "no-recovery"),
            "W3": ("processes",),
            "W6": ("processes", "no-recovery"),
        },
    ),
    "flink": (
        "flink",
        "benchmarks.peers.flink",
        {
            "W1": ("thread", "process"),
            "W2": ("hashmap", "mini-batch"),
            "W3": ("thread", "thread-5ms"),
            "W6": ("thread",),
        },
    ),
    "spark": (
        "spark",
        "benchmarks.peers.spark",
        {
            "W1": ("rows", "pandas"),
            "W2": ("rocksdb", "memory"),
            "W3": ("aggregate", "rows"),
            "W6": ("aggregate", "rows"),
        },
    ),
}

SYSTEMS = tuple(_SYSTEMS)


def contenders() -> list[Contender]:
    """All of them: by workload, ours first."""
    return [
        Contender(workload, system, setting, environment, ("-m", module))
        for workload in WORKLOADS
        for system, (environment, module, settings) in _SYSTEMS.items()
        for setting in settings.get(workload, ())
    ]
