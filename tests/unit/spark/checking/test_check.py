"""``mainstay check``: what is said of files with functions that were written for PySpark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("typer")

from typer.testing import CliRunner

from mainstay.cli.app import app
from mainstay.cli.entry import main
from mainstay.errors import GraphError
from mainstay.spark.checking.check import check_file
from mainstay.spark.checking.findings import (
    DIFFERENT,
    NEEDED,
    UNSEEN,
    UNSUPPORTED,
    CheckedFile,
    CheckedFunction,
    FoundState,
)

HEAD = """
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
"""
COUNTS = """
class Counts(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timerValues):
        self.count.update((len(list(rows)),))
        yield Row(n=1)
"""


def checked(folder: Path, text: str, head: str = HEAD) -> CheckedFile:
    file = folder / "processors.py"
    file.write_text(head + text)
    return check_file(file)


def only(found: CheckedFile) -> CheckedFunction:
    (function,) = found.functions
    return function


def texts(function: CheckedFunction, level: str) -> list[str]:
    return [each.text for each in function.findings if each.level == level]


def test_states_are_told_as_a_job_will_keep_them(tmp_path: Path) -> None:
    found = only(
        checked(
            tmp_path,
            """
class Kinds(StatefulProcessor):
    def init(self, handle):
        self.a = handle.getValueState("a", "n long")
        self.b = handle.getListState("b", "n int, s struct<x:double>")
        self.c = handle.getMapState("c", "page string", "n long", ttlDurationMs=1500)
        handle.deleteIfExists("old")

    def handleInputRows(self, key, rows, timerValues):
        return iter(())
""",
        )
    )
    assert found.runs
    assert found.states == (
        FoundState("a", "value", "struct<n:long>"),
        FoundState("b", "list", "struct<n:int,s:struct<x:double>>"),
        FoundState("c", "map", "struct<n:long>", "struct<page:string>", 1.5),
    )
    assert texts(found, NEEDED) == ['time_mode="ProcessingTime" is needed: c lives for 1.5 s']


def test_calls_are_found_through_fields_and_names(tmp_path: Path) -> None:
    found = only(
        checked(
            tmp_path,
            """
class Alias(StatefulProcessor):
    def init(self, given):
        self.timers = given
        self.pages: object = given.getMapState("pages", "page string", "n long")

    def handleInputRows(self, key, rows, timerValues):
        pages, now = self.pages, timerValues.getCurrentWatermarkInMs()
        state = self.pages
        state.updateValue(("a",), (1,))
        self.timers.registerTimer(now + 1)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        expiredTimerInfo.getExpiryTimeInMs()
        return iter(())
""",
        )
    )
    assert [str(call) for call in found.calls] == [
        "handle.getMapState()",
        "timerValues.getCurrentWatermarkInMs()",
        "MapState.updateValue()",
        "handle.registerTimer()",
        "expiredTimerInfo.getExpiryTimeInMs()",
    ]
    assert found.runs
    assert any("timers also fire while no rows come" in text for text in texts(found, DIFFERENT))
    assert any("needs watermark=" in text for text in texts(found, NEEDED))


def test_methods_that_python_does_not_have_are_not_supported(tmp_path: Path) -> None:
    text = COUNTS.replace("yield", "self.count.getOption()\n        yield")
    found = only(checked(tmp_path, text))
    assert not found.runs
    (finding,) = [each for each in found.findings if each.level == UNSUPPORTED]
    assert finding.text.startswith("ValueState.getOption()")
    assert finding.line == 11


@pytest.mark.parametrize(
    "change", ["self.seen += 1", "self.seen['a'] = 1", "self.seen.append(1)", "self.seen = 1"]
)
def test_fields_that_change_are_told(change: str, tmp_path: Path) -> None:
    found = only(checked(tmp_path, COUNTS.replace("yield", f"{change}\n        yield")))
    assert found.runs
    (told,) = [text for text in texts(found, DIFFERENT) if text.startswith("self.seen")]
    assert "belongs into a state" in told


def test_a_processor_whose_fields_are_states_alone_keeps_nothing_else(tmp_path: Path) -> None:
    found = only(checked(tmp_path, COUNTS))
    assert not any("outside of init" in text for text in texts(found, DIFFERENT))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ('handle.getValueState("$x", "n long")', "'\\$x' is no name of a state"),
        ('handle.getValueState("x", "int")', "state 'x'"),
        ("1 / 0", "ZeroDivisionError"),
        ('__import__("sys").exit(0)', "SystemExit: 0"),
        ("handle.registerTimer(1)", "init\\(\\) has no key"),
    ],
)
def test_an_init_that_fails_is_told(declared: str, said: str, tmp_path: Path) -> None:
    text = COUNTS.replace('handle.getValueState("count", "n long")', declared)
    found = only(checked(tmp_path, text))
    assert not found.runs
    with pytest.raises(GraphError, match=said):
        raise GraphError(texts(found, UNSUPPORTED)[0])


def test_inherited_methods_are_looked_at(tmp_path: Path) -> None:
    more = "def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):"
    text = f"{COUNTS}\nclass More(Counts):\n    {more}\n        self.count.nothing()\n"
    counts, more = checked(tmp_path, text).functions
    assert counts.runs
    assert not more.runs
    assert more.states == counts.states


def test_a_processor_that_cannot_be_made_was_not_seen(tmp_path: Path) -> None:
    text = COUNTS + "\n    def __init__(self, n):\n        self.n = n\n"
    found = only(checked(tmp_path, text))
    assert not found.runs
    assert not found.is_seen
    assert found.states == ()
    made = only(checked(tmp_path, text + "\nmade = Counts(3)\n"))
    assert made.runs
    assert [state.name for state in made.states] == ["count"]


@pytest.mark.parametrize("fails", ["1 / 0", "raise SystemExit(0)"])
def test_a_processor_whose_constructor_fails_was_not_seen(fails: str, tmp_path: Path) -> None:
    text = f"{COUNTS}\n    def __init__(self):\n        {fails}\n"
    found = only(checked(tmp_path, text))
    assert not found.runs
    (told,) = texts(found, UNSEEN)
    assert told.startswith("its constructor fails when it is called without arguments")


def test_a_script_that_starts_spark_is_checked_without_it(tmp_path: Path) -> None:
    script = f"""
spark = SparkSession.builder.getOrCreate()
{COUNTS}
class Depends(StatefulProcessor):
    schema = spark.range(1).schema
class More(Depends):
    pass
class NoProcessor(Row):
    schema = spark.range(1).schema
query = spark.readStream.json("in").groupBy("k").transformWithState(
    Counts(), "n long", outputMode="update", timeMode="none")
query.awaitTermination()
"""
    found = checked(tmp_path, script)
    counts, depends, more = found.functions
    assert counts.runs
    assert (depends.name, more.name) == ("Depends", "More")
    assert [each.is_seen for each in found.functions] == [True, False, False]
    assert not found.runs
    assert "a Spark session would have made" in texts(depends, UNSEEN)[0]


def test_the_output_mode_of_a_query_is_looked_at(tmp_path: Path) -> None:
    script = f"""
{COUNTS}
def build(df):
    df.groupBy("complete").transformWithState(Counts(), "n long", "Update", "None")
    return df.groupBy("k").transformWithState(Counts(), "n long", "Complete", "None")
"""
    found = checked(tmp_path, script)
    assert only(found).runs
    assert [each.line for each in found.findings] == [16]


def test_functions_with_a_group_state_are_found(tmp_path: Path) -> None:
    text = """
from pyspark.sql.streaming.state import GroupState

def given(key, frames, state):
    state.update((1,))
    state.setTimeoutDuration(1000)

def annotated(key, frames, state: GroupState):
    state.updated((2,))

def other(a, b, c):
    c.update(1)

def build(df):
    return df.groupBy("k").applyInPandasWithState(given, "n long", "n long", "update", "x")
"""
    first, second = checked(tmp_path, text).functions
    assert (first.name, first.runs) == ("given", True)
    assert "timeouts also come while no rows come" in texts(first, DIFFERENT)
    assert (second.name, texts(second, UNSUPPORTED)) == (
        "annotated",
        ["GroupState has no updated in Python"],
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "neither a subclass of StatefulProcessor nor"),
        ("def f(:", "cannot be read as a Python program"),
        ("open('/not/there')", "line 4, fails when the file is imported: FileNotFoundError"),
        ("nothing", "line 4, fails when the file is imported: NameError"),
        ("raise BaseException", "line 4, fails when the file is imported: BaseException"),
    ],
)
def test_a_file_that_cannot_be_checked_is_an_error(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=said):
        checked(tmp_path, text)


def command(*arguments: str) -> Any:
    return CliRunner().invoke(app(), ["check", *arguments])


def test_the_exit_code_says_whether_all_runs(tmp_path: Path) -> None:
    file = tmp_path / "processors.py"
    file.write_text(HEAD + COUNTS)
    good = command(str(file))
    assert good.exit_code == 0
    assert "Counts (StatefulProcessor, line 5) runs as it is" in good.output
    assert "1 of 1 run on Mainstay as they are" in good.output
    file.write_text(HEAD + COUNTS.replace("update(", "change("))
    bad = command(str(file), "--json")
    assert bad.exit_code == 1
    document = json.loads(bad.stdout)
    assert document["runs"] is False
    assert document["functions"][0]["states"][0]["name"] == "count"


def test_what_was_not_seen_whole_does_not_count_as_running(tmp_path: Path) -> None:
    file = tmp_path / "processors.py"
    unseen = COUNTS.replace("Counts", "Unseen") + "\n    def __init__(self, n):\n        pass\n"
    bad = COUNTS.replace("Counts", "Bad").replace("update(", "change(")
    file.write_text(HEAD + COUNTS + unseen + bad)
    told = command(str(file))
    assert told.exit_code == 1
    assert "Unseen (StatefulProcessor, line 13) was not seen whole" in told.output
    assert "1 of 3 run on Mainstay as they are; 1 could not be seen whole" in told.output
    file.write_text(HEAD + unseen)
    told = command(str(file), "--json")
    assert told.exit_code == 1
    document = json.loads(told.stdout)
    (function,) = document["functions"]
    assert (document["runs"], function["runs"], function["seen"]) == (False, False, False)


@pytest.mark.parametrize("code", [0, 3])
def test_a_file_that_ends_the_program_while_it_is_imported_is_an_error(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "processors.py"
    file.write_text(f"{HEAD}{COUNTS}\nimport sys\nsys.exit({code})\n")
    monkeypatch.setattr(sys, "argv", ["mainstay", "check", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    # Python prints a text on stderr, and exits with 1.
    assert isinstance(ended.value.code, str)
    assert f"line 14, ended the program by sys.exit({code})" in ended.value.code


def test_an_interrupt_while_a_file_is_imported_is_the_user_s(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        checked(tmp_path, "raise KeyboardInterrupt")


SHELVES = """
COLUMNS = ("a", "b")


class Shelves(StatefulProcessor):
    def init(self, handle):
        self.values = {name: handle.getValueState(name, "n long") for name in COLUMNS}
        self.lists = [handle.getListState("l0", "n long"), handle.getListState("l1", "n long")]
        self.maps = {}
        for name in COLUMNS:
            self.maps[name] = handle.getMapState(f"m_{name}", "k long", "n long")
        self.found = {}

    def handleInputRows(self, key, rows, timerValues):
        self.values["a"].update((1,))
        for number in range(2):
            some = self.lists[number]
            some.clear()
            some.push((1,))
        for name in COLUMNS:
            self.maps[name].removeKey((1,))
            self.found[name].append(1)
        return iter([])
"""


def test_states_in_a_dict_or_a_list_are_states(tmp_path: Path) -> None:
    function = only(checked(tmp_path, SHELVES))
    assert len(function.states) == 6
    calls = {str(call) for call in function.calls if not str(call).startswith("handle")}
    assert calls == {
        "ValueState.update()",
        "ListState.clear()",
        "ListState.push()",
        "MapState.removeKey()",
    }
    assert texts(function, UNSUPPORTED) == [
        "ListState.push() is no method that PySpark's class has in Python"
    ]
    changed = [each for each in texts(function, DIFFERENT) if "changed outside of init" in each]
    assert [each.split()[0] for each in changed] == ["self.found"]
