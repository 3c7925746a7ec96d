"""The ``mainstay`` command: what it offers, and what it says where something is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import mainstay
from mainstay import cli
from mainstay.cli import entry
from mainstay.errors import SlotsError

needs_typer = pytest.mark.skipif(
    importlib.util.find_spec("typer") is None, reason="the command is an extra"
)


def called(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """What the process would end with."""
    monkeypatch.setattr(sys, "argv", ["mainstay", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_names_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def app() -> Any:
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(entry, "_app", app)
    said = called([], monkeypatch)
    assert missing in str(said)
    assert "pip install 'mainstay[cli]'" in str(said)


def test_another_module_that_is_missing_is_not_blamed_on_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def app() -> Any:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(entry, "_app", app)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        cli.main()


def test_an_error_of_the_library_is_said_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def app(**_: Any) -> None:
        raise SlotsError("there are 2 slots and the job needs 4")

    monkeypatch.setattr(entry, "_app", lambda: app)
    assert called([], monkeypatch) == "mainstay: there are 2 slots and the job needs 4"


@needs_typer
def test_the_version_is_that_of_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(["--version"], monkeypatch) == 0
    assert capsys.readouterr().out == f"mainstay {mainstay.__version__}\n"


@needs_typer
def test_the_help_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(["--help"], monkeypatch) == 0
    text = capsys.readouterr().out
    assert "demo" in text
    assert "bench" in text


@needs_typer
@pytest.mark.parametrize(
    ("command", "option"), [("demo", "--embedded"), ("bench", "--without-spark")]
)
def test_where_spark_is_not_installed_a_command_says_how_to_do_without(
    command: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstay.cli.trying_commands.find_spec", lambda name: None)
    said = str(called([command], monkeypatch))
    assert "mainstay[cli,spark]" in said
    assert option in said


@needs_typer
def test_every_command_is_in_the_help_by_a_line_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = pytest.importorskip("mainstay.cli.app")
    monkeypatch.setenv("COLUMNS", "80")
    assert called(["--help"], monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for title, commands in app.GROUPS:
        assert any(title in line for line in lines)
        for command in commands:
            said = command.__doc__.partition("\n")[0]
            assert any(command.__name__ in line and said in line for line in lines), said


@needs_typer
def test_check_names_the_pyspark_that_it_needs_where_an_older_one_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    (tmp_path / "processor.py").write_text("")
    code = called(["check", str(tmp_path / "processor.py")], monkeypatch)
    shown = " ".join([str(code), *capsys.readouterr()])
    assert "needs PySpark 4.1 or newer, and PySpark 4.0.5 is" in " ".join(shown.split())
    assert code != 0
