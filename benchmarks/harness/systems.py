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


_DATA = ("pyarrow>=15", "numpy>=1.24")
"""What the workloads are made with, wherever they are made."""

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
        Environment("bytewax", "bytewax", ("bytewax==0.21.1", *_DATA)),
        Environment("pathway", "pathway", ("pathway==0.33.0", *_DATA)),
        Environment("quix", "quixstreams", ("quixstreams==3.28.1", *_DATA), ("java",)),
        Environment("polars", "polars", ("polars==2.1.0", *_DATA)),
        Environment("duckdb", "duckdb", ("duckdb==2.0.0", *_DATA)),
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
                "compiled-spark",
                "compiled-processes",
            ),
            "W2": ("aggregate-spark", "aggregate-processes"),
            "W3": ("process-spark", "process-processes", "compiled-spark", "compiled-processes"),
            "W6": ("process-spark", "batches-spark", "aggregate-spark"),
            "W4": ("cost-spark", "kept-spark", "memory-spark"),
            "W5": ("kill-spark", "rescale-spark"),
            "W7": ("alignment-spark", "interval-spark", "stop_the_world-spark"),
        },
    ),
    "no engine": (
        "here",
        "benchmarks.peers.baseline",
        {"W1": ("dict loop",), "W2": ("pyarrow group_by",), "W6": ("dict loop",)},
    ),
    "polars": (
        "polars",
        "benchmarks.peers.polars",
        {"W2": ("processes", "threads"), "W6": ("processes", "threads")},
    ),
    "duckdb": (
        "duckdb",
        "benchmarks.peers.duckdb",
        {"W2": ("processes", "threads"), "W6": ("processes", "threads")},
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
    "pathway": (
        "pathway",
        "benchmarks.peers.pathway",
        {
            "W1": ("input-log", "no-persistence", "every-record"),
            "W2": ("input-log", "no-persistence"),
            "W3": ("input-log", "no-persistence"),
            "W6": ("input-log", "no-persistence"),
        },
    ),
    "quix": (
        "quix",
        "benchmarks.peers.quix",
        {
            "W1": ("changelog", "exactly-once", "no-changelog"),
            "W2": ("changelog", "no-changelog"),
            "W3": ("changelog",),
            "W6": ("changelog", "no-changelog"),
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
BOUNDS = frozenset({"no engine", "polars", "duckdb"})
"""No competitors: they say what the language or a library could do without an engine around it."""
NOTHING_DURABLE = frozenset({"no-recovery", "no-persistence", "no-changelog"})
"""Settings that are shown and do not count: their state is gone with the machine."""


def contenders() -> list[Contender]:
    """All of them: by workload, ours first."""
    return [
        Contender(workload, system, setting, environment, ("-m", module))
        for workload in WORKLOADS
        for system, (environment, module, settings) in _SYSTEMS.items()
        for setting in settings.get(workload, ())
    ]
