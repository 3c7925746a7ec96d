"""Commands that show what the library does: a demonstration, a benchmark of one minute."""

from __future__ import annotations

from importlib.util import find_spec

import typer
from rich.console import Console

from mainstay.errors import SparkSetupError


def demo(
    embedded: bool = typer.Option(False, "--embedded", help="Run in this process, without Spark."),
    master: str | None = typer.Option(
        None,
        "--master",
        metavar="WHERE",
        help="A master of Spark, such as 'yarn' or 'sc://host:15002'. This machine by default.",
    ),
    directory: str | None = typer.Option(
        None,
        "--directory",
        metavar="PATH",
        help="With a cluster: a folder that all of its machines see.",
    ),
) -> None:
    """Kill a worker in the middle of a job, and count every order once."""
    if embedded and master is not None:
        raise typer.BadParameter("it is either --embedded or --master")
    if not embedded:
        _require_spark("--embedded")
    from mainstay.demo.__main__ import main as run_demo

    raise typer.Exit(run_demo(embedded=embedded, master=master, directory=directory))


def bench(
    seconds: float = typer.Option(
        5.0, min=1.0, metavar="S", help="How many seconds each workload is measured."
    ),
    parallelism: int = typer.Option(2, min=1, metavar="N", help="How many workers run."),
    without_spark: bool = typer.Option(
        False, "--without-spark", help="Run the workers as plain processes, without a JVM."
    ),
) -> None:
    """Measure throughput and latency here, in about a minute."""
    if not without_spark:
        _require_spark("--without-spark")
    from mainstay.bench.command import run_bench

    is_right = run_bench(Console(), seconds, parallelism, on_spark=not without_spark)
    raise typer.Exit(0 if is_right else 1)


def _require_spark(option: str) -> None:
    if find_spec("pyspark") is None:
        raise SparkSetupError(
            "Spark is not installed. Install it with: pip install 'mainstay[cli,spark]', or run "
            f"without it: {option}."
        )
