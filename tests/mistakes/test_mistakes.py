"""Every mistake of the table is seen soon, says what to do, and loses nothing.

*Soon* is five seconds until the whole message stands there, from the start of the program on: of
processor time always, of the clock on a machine that has time for it. Where others want the
processors as well, the clock counts as much less as there are more who want one than there are.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections import Counter
from pathlib import Path

import pytest

from mainstay.connectors import read_committed
from tests.mistakes import page, programs
from tests.mistakes.running import Seen, see
from tests.mistakes.table import ALL, Mistake

SOON_S = 5.0
MORE = 2 * programs.ORDERS
RUNNING = [mistake for mistake in ALL if mistake.runs]
USED = [mistake for mistake in ALL if mistake.used]
AT_ONCE = [mistake for mistake in ALL if not mistake.runs and not mistake.used]


def ids(mistake: Mistake) -> str:
    return mistake.id


def with_orders(program: str, orders: int) -> str:
    return program.replace(f"ORDERS = {programs.ORDERS}", f"ORDERS = {orders}")


def make(mistake: Mistake, directory: Path, orders: int = programs.ORDERS) -> Seen:
    """Run the wrong program, and hold what is seen against the table."""
    path = directory / "program.py"
    path.write_text(mistake.wrong(with_orders(mistake.program, orders)))
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    seen = see(
        path,
        mistake.says,
        environ=mistake.environ,
        interrupt=mistake.interrupt,
        ends=mistake.ends,
    )
    crowd = max(crowd, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert seen.seconds is not None, seen.output
    assert seen.code == mistake.code or not mistake.ends, seen.output
    assert f"{os.sep}mainstay{os.sep}runtime{os.sep}" not in seen.output
    assert seen.cpu_s < SOON_S, seen.output
    if "PYSPARK_PYTHON" not in mistake.environ:
        # How long a JVM takes to start is not ours to say.
        assert seen.seconds / crowd < SOON_S, seen.output
    print(f"{mistake.name}: {seen.seconds:.1f} s, {seen.cpu_s:.1f} s of a processor")
    return seen


def run_right(
    mistake: Mistake, directory: Path, monkeypatch: pytest.MonkeyPatch, orders: int
) -> None:
    path = directory / "right.py"
    path.write_text(with_orders(mistake.program, orders))
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")


def counted(directory: Path) -> Counter[tuple[str, int]]:
    """What the sink has made visible: customers and counts, and how often each."""
    own = directory / "committed"
    if own.is_dir():
        files = [json.loads(path.read_text()) for path in own.iterdir()]
        return Counter(tuple(row) for rows in files for row in rows)
    rows = read_committed(directory / "counts").to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def expected(orders: int) -> Counter[tuple[str, int]]:
    each = orders // 10
    return Counter((f"customer {n}", count + 1) for n in range(10) for count in range(each))


@pytest.mark.parametrize("mistake", AT_ONCE, ids=ids)
def test_a_mistake_is_seen_soon_and_says_what_to_do(mistake: Mistake, tmp_path: Path) -> None:
    make(mistake, tmp_path)


@pytest.mark.parametrize("mistake", RUNNING, ids=ids)
def test_a_mistake_in_a_running_job_loses_nothing_once_it_is_mended(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(mistake, tmp_path)
    run_right(mistake, tmp_path, monkeypatch, programs.ORDERS)
    assert counted(tmp_path) == expected(programs.ORDERS)


@pytest.mark.parametrize(
    "mistake",
    [
        # Some are enough to see that a finished job is no other case; the soak tries them all.
        pytest.param(each, marks=() if number % 6 == 0 else pytest.mark.soak)
        for number, each in enumerate(each for each in RUNNING if each.again)
    ],
    ids=ids,
)
def test_a_mistake_in_a_job_that_had_finished_loses_nothing_either(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_right(mistake, tmp_path, monkeypatch, programs.ORDERS)
    make(mistake, tmp_path, MORE)
    run_right(mistake, tmp_path, monkeypatch, MORE)
    assert counted(tmp_path) == expected(MORE)


@pytest.mark.parametrize("mistake", USED, ids=ids)
def test_a_mistake_in_a_used_directory_harms_nothing_in_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_right(mistake, tmp_path, monkeypatch, programs.ORDERS)
    if mistake.spoil is not None:
        mistake.spoil(tmp_path)
    make(mistake, tmp_path, MORE)
    if mistake.mend is not None:
        mistake.mend(tmp_path)
    run_right(mistake, tmp_path, monkeypatch, MORE)
    assert counted(tmp_path) == expected(MORE)


def test_there_are_forty_mistakes_and_each_says_what_to_do() -> None:
    assert len(ALL) >= 40
    assert len({mistake.id for mistake in ALL}) == len(ALL)
    assert all(mistake.remedy for mistake in ALL)


def test_the_page_of_mistakes_is_made_of_the_table() -> None:
    assert page.PAGE.read_text() == page.text(), "run python -m tests.mistakes.page"
