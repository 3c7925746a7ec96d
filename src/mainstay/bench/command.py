"""``mainstay bench``: runs the suite and shows it."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from mainstay.bench.running import PROCESSES, SPARK
from mainstay.bench.show import show
from mainstay.bench.suite import run_suite, titles


def run_bench(console: Console, seconds: float, parallelism: int, *, on_spark: bool) -> bool:
    """Measure everything and print it; False when a result was not exact."""
    place = "on Spark" if on_spark else "as plain processes"
    console.print(
        f"{parallelism} workers {place}, 100,000 keys, a snapshot every second; "
        f"{seconds:g} s each after a warm-up."
    )
    with console.status("starting ...") as status:
        if on_spark:
            status.update("starting Spark on this machine ...")
            _start_spark(parallelism)
        count, numbers = len(titles()), itertools.count(1)

        def begin(title: str) -> None:
            status.update(f"{next(numbers)} of {count}: {title} ...")

        drive = SPARK if on_spark else PROCESSES
        outcomes = list(run_suite(drive, seconds, parallelism, begin))
    show(console, outcomes, f"Mainstay {place}")
    return all(outcome.is_right is not False for outcome in outcomes)


def _start_spark(workers: int) -> None:
    """The session that the jobs will find, without Spark's word on every job that is cancelled."""
    from mainstay.spark.launch.session import local_session

    with _kept_from_the_screen():
        session = local_session(workers)
    session.sparkContext.setLogLevel("OFF")


@contextmanager
def _kept_from_the_screen() -> Iterator[None]:
    """Send what the JVM writes to a file, from its very start; show it if it does not start."""
    sys.stderr.flush()
    screen = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(screen, 2)
            file.seek(0)
            os.write(2, file.read())
            raise
        finally:
            os.dup2(screen, 2)
            os.close(screen)
