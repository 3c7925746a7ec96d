"""Commands for programs: run one, begin one, or check what one brings from PySpark."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import typer


def run(
    file: Path = typer.Argument(help="A program that starts a job.", exists=True, dir_okay=False),  # noqa: B008
    arguments: list[str] | None = typer.Argument(  # noqa: B008
        None, help="What the program is given; behind --."
    ),
    master: str | None = typer.Option(
        None,
        "--master",
        metavar="WHERE",
        help="embedded, processes, or a master of Spark, such as 'local[4]' or 'sc://host:15002'.",
    ),
    parallelism: int | None = typer.Option(
        None, "--parallelism", min=1, metavar="N", help="How many workers."
    ),
    snapshots: str | None = typer.Option(
        None,
        "--snapshots",
        metavar="PATH",
        help="Where snapshots go: a folder, or an s3, gs or az URL.",
    ),
    restore: str | None = typer.Option(
        None,
        "--restore",
        metavar="FROM",
        help="Go on from: latest, latest-or-new, an epoch, or the path of a savepoint.",
    ),
    name: str | None = typer.Option(None, "--name", metavar="NAME", help="The name of the job."),
    ui: bool | None = typer.Option(
        None, "--ui/--no-ui", help="Serve a page of the job. It is served unless you say no."
    ),
    port: int | None = typer.Option(
        None, "--port", min=0, max=65_535, metavar="N", help="That of the page."
    ),
) -> None:
    """Run a program: with a page, and with settings before its own.

    What is given here comes before what the program gives to its Environment.
    """
    from mainstay.api.overrides import Overrides, restore_of
    from mainstay.program.run import Run, say

    if ui is None and find_spec("fastapi") is None:
        say("without a page, which needs: pip install 'mainstay[ui]'")
        ui = False
    overrides = Overrides(
        master=master,
        parallelism=parallelism,
        snapshots=snapshots,
        restore=None if restore is None else restore_of(restore),
        name=name,
        ui=ui is not False,
        port=port,
    )
    raise typer.Exit(Run(file, arguments or ()).run(overrides))


def check(
    file: Path = typer.Argument(  # noqa: B008
        help="A file with a StatefulProcessor or a function of applyInPandasWithState.",
        exists=True,
        dir_okay=False,
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the report as one JSON object."),
) -> None:
    """Say what of PySpark's stateful functions runs as it is.

    The file is imported and each init() is run, without a Spark session.
    """
    from mainstay.cli.screen import console, print_json
    from mainstay.errors import SparkSetupError
    from mainstay.program.check_report import document_of, show_checked

    if find_spec("pyspark") is None:
        raise SparkSetupError(
            "mainstay check needs PySpark, which is not installed. Install it with pip install "
            "'mainstay[spark]'."
        )
    from mainstay.spark.oldest_pyspark import require_pyspark

    require_pyspark()
    from mainstay.spark.checking.check import check_file

    checked = check_file(file)
    if as_json:
        print_json(document_of(checked))
    else:
        show_checked(console(), checked)
    raise typer.Exit(0 if checked.runs else 1)


def init(
    folder: Path = typer.Argument(help="A folder that is absent or empty.", metavar="DIR"),  # noqa: B008
    as_json: bool = typer.Option(False, "--json", help="Print the files as a JSON array."),
) -> None:
    """Begin a project: a job that runs, its tests, and what they need."""
    from mainstay.cli.screen import print_json
    from mainstay.program.skeleton import write_skeleton

    written = [str(file) for file in write_skeleton(folder)]
    if as_json:
        print_json(written)
        return
    typer.echo("\n".join(written))
    typer.echo(f"Next: cd {folder} && pytest && mainstay run job.py", err=True)
