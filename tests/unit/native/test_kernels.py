"""Kernels are compiled once, and whatever happens to their files they are made again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mainstay.errors import MainstayError
from mainstay.native import kernels as native
from mainstay.native.cache import FOLDER, cache_folder, compiled_files
from mainstay.native.kernels import NumbaKernels
from mainstay.runtime.compiled.arithmetic import Trap
from mainstay.runtime.compiled.program import Program

pytest.importorskip("numba")

TEXT = """def kernel(progress, count, values):
    for i in range(progress[0], count):
        values[i] = mul(values[i], 3)
        progress[0] = i + 1
"""


def program(text: str = TEXT) -> Program:
    signature = ("int64[:]*", "int64", "int64[:]*")
    return Program("operator 'threefold'", text, (), (), (), (), (), (), signature)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path / "compiled"))
    native._kernel.cache_clear()
    return tmp_path / "compiled"


def threefold(values: list[int]) -> list[int]:
    native._kernel.cache_clear()
    array, progress = np.array(values), np.zeros(1, np.int64)
    NumbaKernels().load(program())(progress, len(array), array)
    assert progress[0] == len(array)
    return array.tolist()


def test_a_kernel_computes_and_traps_at_the_row_that_overflows() -> None:
    assert threefold([1, -2, 3]) == [3, -6, 9]
    array, progress = np.array([1, 1 << 62, 2]), np.zeros(1, np.int64)
    with pytest.raises(Trap):
        NumbaKernels().load(program())(progress, 3, array)
    assert (progress[0], array.tolist()) == (1, [3, 1 << 62, 2])


def test_files_that_are_damaged_or_gone_are_made_again(folder: Path) -> None:
    assert not NumbaKernels().is_cached(program())
    assert threefold([2]) == [6]
    assert NumbaKernels().is_cached(program())
    for damage in (b"", b"\x80\x04nonsense" * 40, None):
        (file,) = folder.glob("__pycache__/*.nbc")
        file.unlink() if damage is None else file.write_bytes(damage)
        assert threefold([2]) == [6]
    (source,) = folder.glob("*.py")
    source.write_text("def kernel(progress, count, values): pass\n")
    assert threefold([2]) == [6]
    for path in folder.rglob("*.*"):
        path.unlink()
    assert threefold([2]) == [6]


def test_a_text_that_numba_refuses_is_an_error_with_the_function_and_the_remedy() -> None:
    odd = program("def kernel(progress, count, values):\n    values[0] = [].nothing\n")
    with pytest.raises(MainstayError, match=r"operator 'threefold' cannot be compiled .*Leave out"):
        NumbaKernels().load(odd)


def test_without_a_home_there_is_a_folder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/nothing")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = cache_folder()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    assert threefold([4]) == [12]
    folder.chmod(0o777)
    assert cache_folder() != folder, "another user may have put something there"
    assert compiled_files("nothing") == []
