"""The ``mainstay`` command: a demonstration, a benchmark of one minute, a look at snapshots."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any

import mainstay
from mainstay.errors import MainstayError, SparkSetupError

WIDE = 160
MISSING = (
    "the mainstay command needs {name}, which is not installed. Install it with: "
    "pip install 'mainstay[cli]'"
)


def main() -> None:
    """The entry point."""
    try:
        app = _app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(MISSING.format(name=error.name))
    try:
        app()
    except MainstayError as error:
        # What is wrong and what to do is in the message; where it was found helps nobody here.
        sys.exit(f"mainstay: {error}")


def _require_spark(option: str) -> None:
    if find_spec("pyspark") is None:
        raise SparkSetupError(
            "Spark is not installed. Install it with: pip install 'mainstay[cli,spark]', or run "
            f"without it: {option}."
        )


def _console() -> Any:
    """Where there is no terminal, tables are as wide as they need to be to be read."""
    from rich.console import Console

    is_free = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=WIDE if is_free else None)


def _app() -> Any:
    """The commands. What they are made of is an extra, so it is imported here and not above."""
    import typer

    app = typer.Typer(
        name="mainstay",
        help="Managed state and consistent snapshots for PySpark programs.",
        no_args_is_help=True,
        add_completion=False,
        # An error says what to do; pages of source around it do not.
        pretty_exceptions_enable=False,
    )
    for add in (_add_options, _add_demo, _add_bench, _add_snapshots, _add_query, _add_sql):
        add(app)
    return app


def _add_options(app: Any) -> None:
    import typer

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"mainstay {mainstay.__version__}")
            raise typer.Exit

    @app.callback()  # type: ignore[untyped-decorator]
    def options(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        """Options of the command itself."""


def _add_demo(app: Any) -> None:
    import typer

    @app.command()  # type: ignore[untyped-decorator]
    def demo(
        embedded: bool = typer.Option(
            False, "--embedded", help="Run in this process, without Spark."
        ),
    ) -> None:
        """Kill a worker in the middle of a job, and count every order exactly once."""
        if not embedded:
            _require_spark("--embedded")
        from mainstay.demo.__main__ import main as run_demo

        raise typer.Exit(run_demo(embedded=embedded))


def _add_bench(app: Any) -> None:
    import typer
    from rich.console import Console

    @app.command()  # type: ignore[untyped-decorator]
    def bench(
        seconds: float = typer.Option(
            5.0, min=1.0, help="How many seconds each workload is measured."
        ),
        parallelism: int = typer.Option(2, min=1, help="How many workers run."),
        without_spark: bool = typer.Option(
            False, "--without-spark", help="Run the workers as plain processes, without a JVM."
        ),
    ) -> None:
        """Measure throughput and latency on this machine, in about a minute."""
        if not without_spark:
            _require_spark("--without-spark")
        from mainstay.bench.command import run_bench

        is_right = run_bench(Console(), seconds, parallelism, on_spark=not without_spark)
        raise typer.Exit(0 if is_right else 1)


def _add_snapshots(app: Any) -> None:
    import typer

    @app.command()  # type: ignore[untyped-decorator]
    def snapshots(
        path: str = typer.Argument(
            help="A job's snapshot directory, or a savepoint: a folder or an s3, gs or az URL."
        ),
        epoch: str | None = typer.Option(
            None, "--epoch", help="Show what this epoch holds: a number, or latest."
        ),
        verify: bool = typer.Option(
            False, "--verify", help="Read every file of the kept epochs and check its checksum."
        ),
        history: int = typer.Option(
            0,
            "--history",
            min=0,
            metavar="N",
            help="Show the newest N epochs, also those no longer kept.",
        ),
        failures: bool = typer.Option(
            False, "--failures", help="Show why attempts have failed, and what was done about it."
        ),
        orphans: bool = typer.Option(
            False, "--orphans", help="List files that no kept epoch needs."
        ),
        remove_orphans: bool = typer.Option(
            False, "--remove-orphans", help="List orphans, ask, and delete them."
        ),
        yes: bool = typer.Option(False, "--yes", help="Delete without asking."),
        as_json: bool = typer.Option(False, "--json", help="Print everything as one JSON object."),
    ) -> None:
        """Show what a snapshot directory or a savepoint holds, and whether it is complete.

        Without options: the job, its attempts and the epochs that are kept.
        """
        from mainstay.survey.command import Request, run_snapshots

        def confirm(question: str) -> bool:
            # Asked on the other stream: what is printed may be read by a program.
            return yes or typer.confirm(question, err=True)

        request = Request(epoch, verify, orphans, remove_orphans, history, as_json, failures)
        is_sound = run_snapshots(_console(), path, request, confirm)
        raise typer.Exit(0 if is_sound else 1)


def _add_query(app: Any) -> None:
    import typer

    @app.command()  # type: ignore[untyped-decorator]
    def query(
        path: str = typer.Argument(
            help="A job's snapshot directory, or a savepoint: a folder or an s3, gs or az URL."
        ),
        state: str | None = typer.Argument(
            None, help="The state, as operator.state; without it the states are listed."
        ),
        key: list[str] | None = typer.Option(  # noqa: B008
            None, "--key", help="A key; for one of several columns a JSON object. May be repeated."
        ),
        epoch: str = typer.Option("latest", "--epoch", help="Any epoch that is kept."),
        limit: int | None = typer.Option(
            None, "--limit", min=0, help="Rows that are shown where no key is given; 20."
        ),
        as_json: bool = typer.Option(False, "--json", help="Print the answer as a JSON object."),
    ) -> None:
        """Look keys up in the committed state of a job, running or not."""
        from mainstay.survey.asking import run_query

        run_query(_console(), path, state, key or (), epoch=epoch, limit=limit, as_json=as_json)


def _add_sql(app: Any) -> None:
    import typer

    @app.command()  # type: ignore[untyped-decorator]
    def sql(
        path: str = typer.Argument(help="A job's snapshot directory, or a savepoint."),
        statement: str = typer.Argument(
            help="A SELECT over states, each the table operator.state."
        ),
        epoch: str = typer.Option("latest", "--epoch", help="Any epoch that is kept."),
        as_json: bool = typer.Option(False, "--json", help="Print the rows as a JSON array."),
    ) -> None:
        """Run a SELECT over the committed state of a job, running or not."""
        from mainstay.survey.asking import run_sql

        run_sql(_console(), path, statement, epoch=epoch, as_json=as_json)


if __name__ == "__main__":
    main()
