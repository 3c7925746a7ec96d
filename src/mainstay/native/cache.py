"""Where kernels lie that were compiled: a folder of the user on this machine.

What is in it may be deleted at any time, and what is damaged is made anew. Where no folder of the
user can be written to, there is one among temporary files, which belongs to the user alone.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import sys
import tempfile
from pathlib import Path
from types import ModuleType

FOLDER = "MAINSTAY_COMPILED"
"""The variable of the environment that names another folder for what is compiled."""


def cache_folder() -> Path:
    """The folder, which is there and can be written to."""
    told = os.environ.get(FOLDER)
    if told:
        Path(told).mkdir(parents=True, exist_ok=True)
        return Path(told)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "mainstay" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _temporary()
    return folder if os.access(folder, os.W_OK) else _temporary()


def _temporary() -> Path:
    """A folder that no other user can put anything into."""
    folder = Path(tempfile.gettempdir()) / f"mainstay-compiled-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        known = folder.lstat()
        is_own = stat.S_ISDIR(known.st_mode) and known.st_uid == os.getuid()
        if not is_own or known.st_mode & 0o077:
            return Path(tempfile.mkdtemp(prefix="mainstay-compiled-"))
    return folder


def module_of(source: str, name: str) -> ModuleType:
    """A text as a module of a file. The process that needs it first writes it, whole."""
    path = cache_folder() / f"{name}.py"
    if not path.exists() or path.read_text("utf-8") != source:
        _write(path, source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _write(path: Path, source: str) -> None:
    handle, made = tempfile.mkstemp(dir=path.parent, suffix=".new")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source)
    # Always the same time: the cache of machine code goes by it.
    os.utime(made, (0, 0))
    os.replace(made, path)


def compiled_files(name: str) -> list[Path]:
    """The machine code of a module."""
    return sorted((cache_folder() / "__pycache__").glob(f"{name}.kernel-*.nb[ic]"))


def forget(name: str) -> None:
    """Delete the machine code of a module."""
    for path in compiled_files(name):
        path.unlink(missing_ok=True)
