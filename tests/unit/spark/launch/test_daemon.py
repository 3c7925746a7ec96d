"""The process that Spark forks workers from: what is in it, and that forking it is safe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from mainstay.spark.launch import session
from mainstay.spark.launch.daemon import PRELOADED
from mainstay.spark.launch.workers_python import imports_this_package


def output_of(program: str) -> list[str]:
    """What a fresh interpreter prints, in the environment that a local session gives it."""
    prefix = "spark.executorEnv."
    own = {k.removeprefix(prefix): v for k, v in session.DAEMON.items() if k.startswith(prefix)}
    answer = subprocess.run(
        [sys.executable, "-c", "from mainstay.spark.launch.daemon import *\n" + program],
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_NUM_THREADS": "1", **own},
    )
    return answer.stdout.split()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_there_is_one_thread_when_everything_is_imported() -> None:
    program = """
preload(); settle()
print(len(os.listdir("/proc/self/task")), *[name in sys.modules for name in PRELOADED])
"""
    assert output_of(program) == ["1", *["True"] * len(PRELOADED)]


CHILDREN = """
preload(); settle()
import numpy, random
for _ in range(3):
    if not os.fork():
        print(numpy.random.random(), random.random(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_children_draw_different_random_numbers() -> None:
    drawn = output_of(CHILDREN)
    assert len(drawn) == len(set(drawn)) == 6


def test_a_child_has_no_zip_to_read_again_and_nothing_to_collect() -> None:
    program = """
preload(); settle()
import gc
print(len(sys.path_importer_cache), gc.get_freeze_count() > 10_000)
"""
    assert output_of(program) == ["0", "True"]


def test_a_child_still_finds_modules_that_were_not_imported() -> None:
    program = "preload(); settle(); import this_is_nowhere"
    with pytest.raises(subprocess.CalledProcessError) as raised:
        output_of(program)
    assert "No module named 'this_is_nowhere'" in raised.value.stderr
    assert output_of("preload(); settle(); import sched; print(sched.__name__)") == ["sched"]


def test_a_local_session_uses_it_where_workers_find_this_package_by_themselves(
    tmp_path: Path,
) -> None:
    assert imports_this_package(sys.executable)
    elsewhere = tmp_path / "python"
    elsewhere.write_text("#!/bin/sh\necho /opt/elsewhere/mainstay/__init__.py\n")
    elsewhere.chmod(0o755)
    assert not imports_this_package(str(elsewhere))
    elsewhere.write_text("#!/bin/sh\necho \"AttributeError: 'NoneType'\" >&2; exit 1\n")
    assert not imports_this_package(str(elsewhere))
